//! Parses a quantity's text: sign, digits and suffix.

use std::borrow::Cow;
use std::str::FromStr;

use super::amount::{Amount, MAX_DIGITS, power_of_ten};
use super::{BINARY_SUFFIXES, DECIMAL_SUFFIXES, ParseQuantityError, Quantity, QuantityFormat};

/// The power of ten of the smallest step: nano.
const FINEST_SCALE: i32 = -9;

/// Significant digits of a fraction before a binary suffix; with 19 integer digits, the product fits 128 bits.
const MAX_BINARY_FRACTION: usize = 19;

/// The maximum of quantities with a binary suffix.
const BINARY_CAP: u128 = i64::MAX as u128;

/// The parts of a quantity's text. `number` has no leading zeros but at least one digit.
struct Parts<'a> {
    negative: bool,
    number: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

/// The multiplier of a suffix.
enum Multiplier {
    Ten { power: i32, format: QuantityFormat },
    Two { power: u32 },
}

/// True for the quantities nearly all objects have, `250m` or `512Mi`, which print as written. Returns false for some
/// others that print as written too.
pub(crate) fn is_plain_quantity(text: &str) -> bool {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, suffix) = text.split_at(digits);
    // Few enough digits not to reach the maximum with any suffix. Zero has no suffix.
    if !(1..=9).contains(&digits) || (number.starts_with('0') && text != "0") {
        return false;
    }
    match suffix {
        "" | "m" | "k" | "M" | "G" => !number.ends_with("000"),
        "Ki" | "Mi" | "Gi" => number.parse::<u32>().is_ok_and(|number| number % 1024 != 0),
        _ => false,
    }
}

impl FromStr for Quantity {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = Parts::split(text)?;
        match multiplier(parts.suffix)? {
            Multiplier::Ten { power, format } => Ok(Self {
                amount: parts.decimal(power)?,
                format,
                typed: parts.keeps_decimal_text(power).then(|| text.into()),
            }),
            Multiplier::Two { power } => {
                let amount = parts.binary(power);
                Ok(Self {
                    amount,
                    format: if amount.is_fraction_of_one() {
                        QuantityFormat::DecimalSi
                    } else {
                        QuantityFormat::BinarySi
                    },
                    typed: parts.keeps_binary_text(power).then(|| text.into()),
                })
            }
        }
    }
}

impl<'a> Parts<'a> {
    fn split(text: &'a str) -> Result<Self, ParseQuantityError> {
        if text.is_empty() {
            return Err(ParseQuantityError::Format);
        }
        let (negative, rest) = match text.as_bytes()[0] {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let (number, rest) = split_digits(rest.trim_start_matches('0'));
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => split_digits(rest),
            None => ("", rest),
        };
        let exponent = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
        let digits = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(ParseQuantityError::Format);
        }
        Ok(Self {
            negative,
            number: if number.is_empty() { "0" } else { number },
            fraction,
            suffix,
        })
    }

    fn decimal(&self, power: i32) -> Result<Amount, ParseQuantityError> {
        let digits = self.digits(self.fraction);
        let mut digits = &*digits;
        let mut scale = i64::from(power) - self.fraction.len() as i64;
        let mut round_up = false;
        if scale < FINEST_SCALE.into() {
            let finer = i64::from(FINEST_SCALE) - scale;
            let keep = digits
                .len()
                .saturating_sub(usize::try_from(finer).unwrap_or(usize::MAX));
            round_up = digits[keep..].bytes().any(|digit| digit != b'0');
            digits = &digits[..keep];
            scale = FINEST_SCALE.into();
        }
        let significant = digits.trim_end_matches('0');
        if significant.trim_start_matches('0').len() > MAX_DIGITS {
            return Err(ParseQuantityError::Numeric);
        }
        let zeros = (digits.len() - significant.len()) as i64;
        let coefficient = significant.parse().unwrap_or(0u128);
        let exact = scaled_amount(self.negative, coefficient, scale + zeros)?;
        match round_up {
            true => exact
                .checked_add(Amount::new(self.negative, 1, FINEST_SCALE))
                .ok_or(ParseQuantityError::Numeric),
            false => Ok(exact),
        }
    }

    fn binary(&self, power: u32) -> Amount {
        let kept = self.fraction.len().min(MAX_BINARY_FRACTION);
        let (fraction, dropped) = self.fraction.split_at(kept);
        let round_up = dropped.bytes().any(|digit| digit != b'0');
        let capped = Amount::new(self.negative, BINARY_CAP, 0);
        if self.number.len() > MAX_BINARY_FRACTION {
            return capped;
        }
        let digits: u128 = self.digits(fraction).parse().unwrap_or(0);
        let Some(product) = (digits + u128::from(round_up)).checked_mul(1 << power) else {
            return capped;
        };
        let finer = kept.saturating_sub(FINEST_SCALE.unsigned_abs() as usize);
        let coefficient = product.div_ceil(power_of_ten(finer));
        let unit = power_of_ten(kept - finer);
        if coefficient > BINARY_CAP * unit {
            return capped;
        }
        Amount::new(self.negative, coefficient, -((kept - finer) as i32))
    }

    /// The number with these digits of its fraction; nearly all have none.
    fn digits(&self, fraction: &str) -> Cow<'a, str> {
        match fraction {
            "" => self.number.into(),
            fraction => format!("{}{fraction}", self.number).into(),
        }
    }

    /// True if Kubernetes echoes the text: short numbers that look canonical at first sight.
    fn keeps_decimal_text(&self, power: i32) -> bool {
        /// The digits it reads into 64 bits on its fast path.
        const SHORT: usize = 18;
        let digits = self.digits(self.fraction);
        let scale = i64::from(power) - self.fraction.len() as i64;
        digits.len() <= SHORT
            && scale >= FINEST_SCALE.into()
            && scale % 3 == 0
            && !digits.ends_with("000")
            && !digits.starts_with('0')
    }

    /// The same for binary suffixes: a multiple of eight might be a multiple of 1024.
    fn keeps_binary_text(&self, power: u32) -> bool {
        /// The decimal digits of number and suffix together on its fast path.
        const SHORT: usize = 14;
        let suffix_digits = (power * 3 / 10) as usize;
        self.fraction.is_empty()
            && self.number.len() + suffix_digits <= SHORT
            && self.number.parse::<u64>().is_ok_and(|value| value % 8 != 0)
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    text.split_at(end)
}

fn multiplier(suffix: &str) -> Result<Multiplier, ParseQuantityError> {
    if let Some((_, power)) = DECIMAL_SUFFIXES.iter().find(|(name, _)| *name == suffix) {
        return Ok(Multiplier::Ten {
            power: *power,
            format: QuantityFormat::DecimalSi,
        });
    }
    if let Some(index) = BINARY_SUFFIXES.iter().position(|name| *name == suffix) {
        return Ok(Multiplier::Two {
            power: 10 * (index as u32 + 1),
        });
    }
    let exponent = suffix
        .strip_prefix(['e', 'E'])
        .ok_or(ParseQuantityError::Suffix)?;
    let power = exponent.parse().map_err(|_| ParseQuantityError::Suffix)?;
    Ok(Multiplier::Ten {
        power,
        format: QuantityFormat::DecimalExponent,
    })
}

fn scaled_amount(negative: bool, coefficient: u128, scale: i64) -> Result<Amount, ParseQuantityError> {
    let scale = i32::try_from(scale).map_err(|_| ParseQuantityError::Numeric)?;
    Ok(Amount::new(negative, coefficient, scale))
}
