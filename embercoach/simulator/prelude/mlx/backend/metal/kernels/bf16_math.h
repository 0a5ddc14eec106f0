// In place of MLX's: the prelude has the functions of bfloat itself.
#pragma once
