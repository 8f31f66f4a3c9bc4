"""The shapes of calls of the attention package are checked while tests run, once per combination of sizes and types.

jaxtyping's own decorator checks every call, its arguments twice, and binds them to the signature as well, for its
messages: a third of the processor time of the tests of attention and more.
"""

from functools import partial, wraps

import jaxtyping
from beartype import BeartypeConf, beartype

# An int may be a float.
_CHECK = beartype(conf=BeartypeConf(is_pep484_tower=True, violation_type=jaxtyping.TypeCheckError))
_ONE_CALL = jaxtyping.jaxtyped("context")  # the names of axes stand for the same sizes


def _size_and_type(value):
    try:
        return value.shape, value.dtype
    except (AttributeError, RuntimeError):  # no tensor, or a nested one
        return value is None


def _checked(function=None, *, typechecker):
    if function is None:
        return partial(_checked, typechecker=typechecker)
    if isinstance(function, type):
        return function
    with_checks, checked = _CHECK(function), set()

    @wraps(function)
    def call(*arguments, **options):
        every = (*arguments, *options.values())
        sizes = *map(type, arguments[:1]), *map(_size_and_type, every)
        if sizes in checked:
            return function(*arguments, **options)
        with _ONE_CALL:
            result = with_checks(*arguments, **options)
        checked.add(sizes)
        return result

    # `ops.fuse` replaces only parts whose methods are in the file of their class.
    call.__code__ = call.__code__.replace(co_filename=function.__code__.co_filename)
    return call


def install():
    """Before the package is imported: the hook wraps functions as their modules are loaded."""
    jaxtyping.jaxtyped = _checked
    jaxtyping.install_import_hook("seq2seq_attn.attention", "beartype.beartype")
