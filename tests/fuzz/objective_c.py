"""Objective-C++ files with Metal text in their strings."""

from __future__ import annotations

from functools import partial

from tests.fuzz import metal_source, seeds
from tests.fuzz.mutation import text_mutation
from tests.fuzz.soundness import examine
from tests.fuzz.target import Target

WORDS = (
    *('@"', "@(", "@[", "@{", "@interface A : NSObject", "@implementation A"),
    *("@end", "@autoreleasepool"),
    *("[device newBufferWithLength:4 options:0]", "[encoder setBuffer:b offset:0 atIndex:0];"),
    *("[queue commandBuffer]", '[library newFunctionWithName:@"k"]', "^(int a) {", 'R"metal('),
    *(')metal"', "newLibraryWithSource:", "dispatchThreads:MTLSizeMake(1, 1, 1)", "- (void)run {"),
    *("[", "]", "id<MTLDevice>", "@selector(a:b:)", "@encode(int)", "@property (nonatomic) int a;"),
)


TARGET = Target(
    "objective-c",
    seeds.objective_c_files,
    text_mutation(seeds.objective_c_files, (*WORDS, *metal_source.WORDS)),
    partial(examine, name="host.mm"),
)
