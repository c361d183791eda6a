"""Rows about models that must be refused; tests/error has them, each with its exact code."""

ERROR_ROWS = {
    "duplicate_names": {"bad_models.py": ["two_initializers_of_one_name", "two_nodes_that_write_one_value"]},
    "external_data": {
        "test_errors.py": [
            "parent_folder",
            "absolute",
            "test_external_data_behind_a_symbolic_link",
            "test_external_data_behind_a_hard_link",
            "test_external_data_of_bytes",
            "offset_past_the_end",
            "length_too_short",
            "file_far_too_small",
        ]
    },
}

# The table of constructs, row by row; test_cases.py checks that each has its cases or its error tests.
TABLE = [
    "flattened_softmax",
    "slice_negative_steps",
    "resize_round_prefer_ceil",
    "resize_floor_half_pixel",
    "reshape_zero_and_minus_one",
    "gelu_forms",
    "variadic_mixed_ranks",
    "pool_ceil_padding",
    "average_pool_divisor",
    "conv_transpose_same",
    "grouped_conv_then_add",
    "gemm_identity_transpose",
    "written_norms",
    "pad_then_pool",
    "mod_and_integer_div",
    "cast_to_bool",
    "cast_to_float8",
    "round_half_to_even",
    "quantized_softmax",
    "quantized_weights",
    "top_k_ties",
    "non_zero_of_scalars",
    "loop_without_trips",
    "if_outer_initializer",
    "zero_sized_dims",
    "layer_norm_half_large",
    "nan_relu_clip",
    "fed_initializer",
    "duplicate_names",
    "external_data",
    "scatter_gather_einsum",
    "interior_outputs",
    "recurrent_clip",
    "recurrent_lengths",
    "reshape_computed_zero",
]
