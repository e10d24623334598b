//! An exact decimal number of at most 38 digits: the amount of a quantity.

use std::cmp::Ordering;

/// The significant decimal digits of a quantity: what always fits 128 bits. More is an error, not a loss of
/// precision.
pub(super) const MAX_DIGITS: usize = 38;

/// `±coefficient · 10^scale`, without trailing zeros, so that equal amounts are equal structs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Amount {
    pub(super) negative: bool,
    /// Below 10^38.
    pub(super) coefficient: u128,
    pub(super) scale: i32,
}

impl Amount {
    pub(super) fn new(negative: bool, mut coefficient: u128, mut scale: i32) -> Self {
        if coefficient == 0 {
            return Self::default();
        }
        while coefficient.is_multiple_of(10) && scale < i32::MAX {
            coefficient /= 10;
            scale += 1;
        }
        Self {
            negative,
            coefficient,
            scale,
        }
    }

    /// The power of ten of the leading digit: 0 for 5, 1 for 50, -1 for 0.5.
    pub(super) fn order(self) -> i64 {
        i64::from(self.coefficient.checked_ilog10().unwrap_or(0)) + i64::from(self.scale)
    }

    pub(super) fn is_fraction_of_one(self) -> bool {
        self.coefficient != 0 && !self.negative && self.order() < 0
    }

    /// The magnitude, if it is an integer and fits.
    pub(super) fn whole(self) -> Option<u128> {
        let zeros = usize::try_from(self.scale).ok()?;
        (zeros <= MAX_DIGITS).then(|| self.coefficient.checked_mul(power_of_ten(zeros)))?
    }

    pub(super) fn rounded_to(self, scale: i32) -> Option<i64> {
        let shift = i64::from(self.scale) - i64::from(scale);
        let zeros = usize::try_from(shift.unsigned_abs()).ok()?;
        let magnitude = match shift >= 0 {
            true if zeros > MAX_DIGITS => return (self.coefficient == 0).then_some(0),
            true => self.coefficient.checked_mul(power_of_ten(zeros))?,
            false if zeros > MAX_DIGITS => u128::from(self.coefficient != 0),
            false => self.coefficient.div_ceil(power_of_ten(zeros)),
        };
        let value = i128::try_from(magnitude).ok()?;
        i64::try_from(if self.negative { -value } else { value }).ok()
    }

    /// Coefficient and power of ten, with the power a multiple of three.
    pub(super) fn in_thousands(self) -> (u128, i32, usize) {
        let extra = self.scale.rem_euclid(3);
        (self.coefficient, self.scale - extra, extra as usize)
    }

    /// Both coefficients at the smaller of the two scales.
    fn aligned(self, other: Self) -> Option<(u128, u128, i32)> {
        let scale = self.scale.min(other.scale);
        let at = |amount: Self| {
            let zeros = usize::try_from(i64::from(amount.scale) - i64::from(scale)).ok()?;
            (zeros <= MAX_DIGITS).then(|| amount.coefficient.checked_mul(power_of_ten(zeros)))?
        };
        Some((at(self)?, at(other)?, scale))
    }

    pub(super) fn checked_add(self, other: Self) -> Option<Self> {
        if self.coefficient == 0 || other.coefficient == 0 {
            return Some(if self.coefficient == 0 { other } else { self });
        }
        let (left, right, scale) = self.aligned(other)?;
        let sum = match (self.negative == other.negative, left >= right) {
            (true, _) => Self::new(self.negative, left.checked_add(right)?, scale),
            (false, true) => Self::new(self.negative, left - right, scale),
            (false, false) => Self::new(other.negative, right - left, scale),
        };
        (sum.coefficient < power_of_ten(MAX_DIGITS)).then_some(sum)
    }

    pub(super) fn cmp_magnitude(self, other: Self) -> Ordering {
        if self.coefficient == 0 || other.coefficient == 0 {
            return self.coefficient.cmp(&other.coefficient);
        }
        self.order()
            .cmp(&other.order())
            .then_with(|| match self.aligned(other) {
                Some((left, right, _)) => left.cmp(&right),
                // Amounts of the same order always align within their digits.
                None => Ordering::Equal,
            })
    }
}

/// `zeros` is at most [`MAX_DIGITS`].
pub(super) fn power_of_ten(zeros: usize) -> u128 {
    10u128.pow(zeros as u32)
}
