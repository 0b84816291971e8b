"""Template 5 of 5, of generic kernels only: `update` calls a rule that was compiled separately.

A generic kernel gets the address of the rule from its caller, so one kernel serves all rules, and a new rule takes only
its own compilation. The inlined kernels of long runs do not contain this template.
"""

from numba import float64, int64, njit, types, void
from numba.core import cgutils
from numba.extending import intrinsic

from quadsim.engine.compiled.kernel_parameters import JIT_INLINE, cube, integers, matrix, vector

# Of `apply_rule`, the function of a rule that is compiled separately: the types of the parameters of `update`.
RULE_SIGNATURE = void(
    vector, vector, vector, vector, matrix, cube, matrix, integers, float64, float64, integers, matrix, int64
)  # fmt: skip


@intrinsic
def call_rule(
    typingctx,
    e,
    g,
    minimizer,
    random,
    state,
    settings,
    shared_state,
    groups,
    lr_scale,
    t,
    status,
    rule_workspace,
    rule_address,
):
    """Call the function at this address with numba's calling convention. An exception in it is passed on."""

    def codegen(context, builder, signature, args):
        convention, kinds = context.call_conv, signature.args
        function_type = convention.get_function_type(types.none, kinds).as_pointer()
        function = builder.inttoptr(args[-1], function_type)
        status, _ = convention.call_function(builder, function, types.none, kinds, args)
        with cgutils.if_unlikely(builder, status.is_error):
            convention.return_status_propagate(builder, status)
        return context.get_dummy_value()

    return RULE_SIGNATURE, codegen


@njit(**JIT_INLINE)
def update(
    e, g, minimizer, random, state, settings, shared_state, groups, lr_scale, t, status, rule_workspace, rule_address
):
    """Call `once_per_step` and `update` of the rule."""
    call_rule(
        e,
        g,
        minimizer,
        random,
        state,
        settings,
        shared_state,
        groups,
        lr_scale,
        t,
        status,
        rule_workspace,
        rule_address,
    )


@njit(**JIT_INLINE)
def once_per_step(shared_state, settings, lr_scale, t):
    """Done by the rule's `apply_rule`."""
