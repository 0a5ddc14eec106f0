"""Bugs of the kernel suite that a check without a run does not find, each with its reason."""

from __future__ import annotations

DATA = "the kernel goes wrong only for some data: an index, a count or a condition is read"
SHAPES = "the shape of an array in device memory decides, and those are not followed"
LANES = "no check asks which lanes a SIMD function reads from"
STARTS = "no check follows which private and threadgroup memory was written before it is read"
CHANCE = "atomics make each access whole, and no check asks whether their order matters"
ENDS = "no check asks whether loops and recursions end, nor how deep the stack is"
TICKETS = "where fences or atomics may hand memory over, nothing is reported of that memory"
LOCKSTEP = "threads of one SIMD group run in step on every GPU so far"
CASTS = (
    "elements of structures, of rows of objects and of arrays seen as other types are not counted"
)
ALIGNMENT = "no check follows the alignment of pointers"
PARTIAL = "a full threadgroup is followed, and the last one is not full"

#: Names of the cases, by the reason.
_NAMES = {
    DATA: """
        address_from_data best_index_of_a_row_without_a_hit bins_cleared_by_the_first_group
        bins_cleared_plainly_beside_the_counting constant_table_in_the_header gather_far_outside
        guard_returns_before_the_barrier histogram_bin_that_is_not_there index_from_another_lane
        last_slices_of_a_batch no_barrier_in_the_last_iteration null_unless_it_is_large
        pointer_far_beyond_everything private_accumulators_counted_one_too_far
        private_array_filled_up_to_a_length private_bins_from_data reference_filled_up_to_a_count
        scatter_add_in_a_helper scatter_with_a_doubled_target threadgroup_bin_from_unchecked_data
        top_k_insert_before_the_front wide_batch_offset_in_32_bits shift_of_a_whole_word
        mean_of_an_empty_bin bucket_of_no_buckets strides_of_an_empty_axis
    """,
    SHAPES: """
        pointer_walk_with_less_or_equal bias_after_the_last_row broadcast_read_as_if_it_were_full
        choice_of_two_neighbours countdown_from_the_length edge_tiles_of_a_transpose
        every_other_element float4_of_a_short_constant_input grid_counted_in_threadgroups
        guard_only_bites_in_the_last_row guard_stops_one_short helper_reads_past_the_row
        imaginary_parts last_group_of_a_strided_copy low_words_of_long_integers
        one_tap_too_many_of_a_small_input planes_of_an_oblong_volume reversed_view_read_forwards
        rows_and_columns_swapped rows_padded_to_a_multiple scalar_taken_for_a_list
        scale_by_its_count second_half_of_a_split_that_is_uneven store_scaled_by_the_wrong_stride
        stores_of_both_branches_go_too_far stride_of_the_axis_after_the_last
        strides_of_the_wrong_axis struct_behind_an_odd_array third_axis_of_a_matrix
        vector_loop_forgets_the_rest words_and_halves_of_words
    """,
    LANES: """
        broadcast_from_the_lane_that_stayed_out butterfly_among_the_positive
        matrix_in_a_simdgroup_of_sixteen matrix_load_guarded_by_lane
        matrix_product_of_half_a_simdgroup matrix_stored_by_the_first_lane
        pair_sums_in_a_loop_of_uneven_length
        quad_leader_that_was_masked quad_neighbour_that_is_masked search_that_some_lanes_have_left
        shuffle_down_after_some_have_returned shuffle_from_lanes_outside_the_branch
        shuffle_while_lengths_differ up_shuffle_in_an_odd_branch
    """,
    STARTS: """
        corners_of_a_halo last_component_of_a_vector matrix_of_a_tile_with_an_empty_row
        maximum_of_threads_that_took_no_part member_of_a_struct_from_the_header
        previous_of_the_first_round previous_step_of_a_recurrence_on_the_output
        private_scalar_set_in_one_branch running_softmax_without_a_first_denominator
        second_lane_of_a_pair short_group_reads_lanes_that_do_not_exist
        sums_of_rows_that_came_too_late switch_without_a_default
        table_built_by_the_first_group_alone tail_of_a_tile_never_loaded
        threadgroup_atomic_read_before_it_is_set threadgroup_counter_never_cleared
        undefined_times_zero
    """,
    CHANCE: """
        compaction_by_tickets exchange_hands_the_previous_value_on first_to_claim last_group_wins
        ranks_from_a_threadgroup_ticket remaining_budget_handed_out ties_broken_by_whoever_comes
    """,
    ENDS: """
        bisection_that_never_narrows loop_that_continues_without_a_step step_that_never_meets_one
        table_too_large_for_a_stack waits_for_a_lane_that_waits_as_well
        waits_for_a_later_threadgroup recursion_without_a_floor lock_of_every_lane
        turns_of_the_lanes first_lane_waits_for_the_last
    """,
    TICKETS: """
        fence_of_threadgroup_memory fence_of_threadgroup_scope fence_without_barrier_before
        flag_without_fence_before no_fence_after_the_ticket no_fence_before_the_ticket
        relaxed_fence ticket_ignored write_after_the_ticket
    """,
    LOCKSTEP: """
        simdgroup_barrier_without_memory
    """,
    CASTS: """
        structs_on_chip_by_the_wrong_count vector_view_past_a_private_array
        end_of_a_row_of_vectors end_of_a_members_pairs end_of_a_row_of_matrices
    """,
    ALIGNMENT: """
        vector_of_every_position rows_of_five_seen_as_vectors vector_stores_after_a_header_of_one
        four_halves_in_a_helper word_of_odd_bytes vector_in_a_tile_of_odd_rows
    """,
    PARTIAL: """
        only_the_short_group_takes_the_shortcut
    """,
}
BEYOND = {name: reason for reason, names in _NAMES.items() for name in names.split()}
