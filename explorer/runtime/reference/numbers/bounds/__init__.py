"""Numbers with bounds of the rounding errors that float32 makes on the way to them: running error analysis.

Beside every float64 value stands the scale of its error in float32, in multiples of the unit roundoff u = 2^-24, as it
is computed (N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., 2002, section 3.3). A computed
element is wrong where it differs by more than CONSTANT u scale. The scale has two parts:

- `own`: errors that are independent of those of other elements, added as the root of squares. A sum of n terms has
  sqrt(n) times the sum of their magnitudes, as is likely for any order of additions (Higham and Mary, A new approach to
  probabilistic rounding error analysis, SIAM J. Sci. Comput. 41(5), 2019), where the worst case has n.
- `shared`: errors that several elements may share, as where one row is used by many; these are added up as they are,
  since they do not cancel. An operand that is repeated has all of its error moved here.

Equal terms of a sum round alike, so they lose n and not sqrt(n): their number over that of different ones multiplies n.
"""

from explorer.runtime.reference.numbers.bounds.bounded import Bounded, bounded, rounded
from explorer.runtime.reference.numbers.bounds.parts import CONSTANT, LARGEST, ROUNDOFF, flushing, overflows_seen
from explorer.runtime.reference.numbers.bounds.products import products_coarser
from explorer.runtime.reference.numbers.bounds.rules import RULES

__all__ = [
    "CONSTANT",
    "LARGEST",
    "ROUNDOFF",
    "RULES",
    "Bounded",
    "bounded",
    "flushing",
    "overflows_seen",
    "products_coarser",
    "rounded",
]
