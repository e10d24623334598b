//! Amounts of a resource: `500m` of a processor, `1536Mi` of memory, `12e6` of anything.
//!
//! A quantity is an exact decimal number, never a float, and the family of suffixes it was written with. It
//! prints in canonical form: no fraction, the largest suffix that loses nothing.
//!
//! ```text
//! typed      kept as            prints
//! 1.5        15 · 10^-1         1500m
//! 0.5Gi      536870912 · 10^0   512Mi
//! 1.1n       2 · 10^-9          2n        finer than nano: rounded away from zero
//! 8Ei        2^63-1             9223372036854775807   binary amounts are capped
//! ```

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Ten to this power is the smallest step kept: nano.
const FINEST_SCALE: i32 = -9;

/// Significant decimal digits a quantity can hold: what always fits 128 bits. More is an error, not a loss.
const MAX_DIGITS: usize = 38;

/// Digits of a fraction that count before a binary suffix; with 19 before it, the product fits 128 bits.
const MAX_BINARY_FRACTION: usize = 19;

/// Where amounts with a binary suffix are capped.
const BINARY_CAP: u128 = i64::MAX as u128;

/// The decimal suffixes and their powers of ten.
const DECIMAL_SUFFIXES: [(&str, i32); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];

/// The binary suffixes; each is 1024 times the one before.
const BINARY_SUFFIXES: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// The suffixes a quantity was written with, and is printed with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum QuantityFormat {
    /// `12M`: n, u, m, k, M, G, T, P, E.
    #[default]
    DecimalSi,
    /// `12Mi`: Ki to Ei. Amounts below 1024, or with a fraction, print as decimal.
    BinarySi,
    /// `12e6`.
    DecimalExponent,
}

/// Text that is not a quantity. The messages are the API server's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseQuantityError {
    /// Neither number nor suffix can be told apart.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// More digits than a quantity can hold.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    /// A suffix that is none, such as `1Kii`.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// An exact amount. Two quantities are equal when their amounts are, however they are written.
#[derive(Clone, Debug, Default)]
pub struct Quantity {
    amount: Amount,
    format: QuantityFormat,
    /// The text as typed, where Kubernetes echoes it although it is not canonical (`1.500`, `+5`).
    typed: Option<Box<str>>,
}

/// `±coefficient · 10^scale`, without trailing zeros, so that equal amounts are equal structs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Amount {
    negative: bool,
    /// Below 10^38.
    coefficient: u128,
    scale: i32,
}

/// The parts of a quantity's text. `number` has no leading zeros, but at least one digit.
struct Parts<'a> {
    negative: bool,
    number: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

/// What a suffix multiplies by.
enum Multiplier {
    Ten { power: i32, format: QuantityFormat },
    Two { power: u32 },
}

impl Quantity {
    /// A whole amount.
    pub fn new(value: i64, format: QuantityFormat) -> Self {
        Self::scaled(value, 0, format)
    }

    /// Thousandths.
    pub fn from_milli(value: i64, format: QuantityFormat) -> Self {
        Self::scaled(value, -3, format)
    }

    fn scaled(value: i64, scale: i32, format: QuantityFormat) -> Self {
        Self {
            amount: Amount::new(value < 0, value.unsigned_abs().into(), scale),
            format,
            typed: None,
        }
    }

    /// The suffixes it prints with.
    pub fn format(&self) -> QuantityFormat {
        self.format
    }

    /// Whether it is nothing.
    pub fn is_zero(&self) -> bool {
        self.amount.coefficient == 0
    }

    /// Whether it is less than nothing.
    pub fn is_negative(&self) -> bool {
        self.amount.negative
    }

    /// The amount in whole units, rounded away from zero; `None` beyond 64 bits.
    pub fn to_i64(&self) -> Option<i64> {
        self.amount.rounded_to(0)
    }

    /// The amount in thousandths, rounded away from zero; `None` beyond 64 bits.
    pub fn to_milli(&self) -> Option<i64> {
        self.amount.rounded_to(-3)
    }

    /// The nearest float, for charts and ratios.
    pub fn to_f64(&self) -> f64 {
        let magnitude = self.amount.coefficient as f64 * 10f64.powi(self.amount.scale);
        if self.amount.negative {
            -magnitude
        } else {
            magnitude
        }
    }

    /// The sum; `None` when it has more digits than a quantity can hold. Nothing takes the other's format.
    pub fn checked_add(&self, other: &Self) -> Option<Self> {
        Some(Self {
            amount: self.amount.checked_add(other.amount)?,
            format: if self.is_zero() { other.format } else { self.format },
            typed: None,
        })
    }

    /// The difference; `None` when it has more digits than a quantity can hold.
    pub fn checked_sub(&self, other: &Self) -> Option<Self> {
        let mut negated = other.clone();
        negated.amount = Amount::new(
            !other.amount.negative,
            other.amount.coefficient,
            other.amount.scale,
        );
        self.checked_add(&negated)
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

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(typed) = &self.typed {
            return f.write_str(typed);
        }
        if self.is_zero() {
            return f.write_str("0");
        }
        if self.amount.negative {
            f.write_str("-")?;
        }
        match (self.format, self.amount.whole()) {
            (QuantityFormat::BinarySi, Some(whole)) if whole >= 1024 => write_binary(f, whole),
            (QuantityFormat::DecimalExponent, _) => write_exponent(f, self.amount.in_thousands()),
            _ => write_decimal(f, self.amount.in_thousands()),
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
        let mut digits = format!("{}{}", self.number, self.fraction);
        let mut scale = i64::from(power) - self.fraction.len() as i64;
        let mut round_up = false;
        if scale < FINEST_SCALE.into() {
            let finer = i64::from(FINEST_SCALE) - scale;
            let keep = digits
                .len()
                .saturating_sub(usize::try_from(finer).unwrap_or(usize::MAX));
            round_up = digits[keep..].bytes().any(|digit| digit != b'0');
            digits.truncate(keep);
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
        let digits: u128 = format!("{}{fraction}", self.number).parse().unwrap_or(0);
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

    /// Kubernetes takes short numbers that look canonical at a glance as they stand.
    fn keeps_decimal_text(&self, power: i32) -> bool {
        /// The digits it reads into 64 bits without a second look.
        const SHORT: usize = 18;
        let digits = format!("{}{}", self.number, self.fraction);
        let scale = i64::from(power) - self.fraction.len() as i64;
        digits.len() <= SHORT
            && scale >= FINEST_SCALE.into()
            && scale % 3 == 0
            && !digits.ends_with("000")
            && !digits.starts_with('0')
    }

    /// As above: a multiple of eight might be a multiple of 1024.
    fn keeps_binary_text(&self, power: u32) -> bool {
        /// Decimal digits of number and suffix together that it reads without a second look.
        const SHORT: usize = 14;
        let suffix_digits = (power * 3 / 10) as usize;
        self.fraction.is_empty()
            && self.number.len() + suffix_digits <= SHORT
            && self.number.parse::<u64>().is_ok_and(|value| value % 8 != 0)
    }
}

impl Amount {
    fn new(negative: bool, mut coefficient: u128, mut scale: i32) -> Self {
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

    /// How many digits stand before the point (negative: zeros after it).
    fn order(self) -> i64 {
        i64::from(self.coefficient.checked_ilog10().unwrap_or(0)) + i64::from(self.scale)
    }

    fn is_fraction_of_one(self) -> bool {
        self.coefficient != 0 && !self.negative && self.order() < 0
    }

    /// The magnitude, if it has no fraction and fits.
    fn whole(self) -> Option<u128> {
        let zeros = usize::try_from(self.scale).ok()?;
        (zeros <= MAX_DIGITS).then(|| self.coefficient.checked_mul(power_of_ten(zeros)))?
    }

    fn rounded_to(self, scale: i32) -> Option<i64> {
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

    /// Coefficient and power of ten, the power a multiple of three.
    fn in_thousands(self) -> (u128, i32, usize) {
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

    fn checked_add(self, other: Self) -> Option<Self> {
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

    fn cmp_magnitude(self, other: Self) -> Ordering {
        if self.coefficient == 0 || other.coefficient == 0 {
            return self.coefficient.cmp(&other.coefficient);
        }
        self.order()
            .cmp(&other.order())
            .then_with(|| match self.aligned(other) {
                Some((left, right, _)) => left.cmp(&right),
                // Of the same order, no two amounts are further apart than their digits.
                None => Ordering::Equal,
            })
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.amount.negative, other.amount.negative) {
            (false, false) => self.amount.cmp_magnitude(other.amount),
            (true, true) => other.amount.cmp_magnitude(self.amount),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
        }
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.amount == other.amount
    }
}

impl Eq for Quantity {}

impl Hash for Quantity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.amount.hash(state);
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    /// Text or a number; nothing is zero.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Quantity;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity: text or a number")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
                text.trim().parse().map_err(E::custom)
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Quantity, E> {
                self.visit_str(&value.to_string())
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Quantity, E> {
                self.visit_str(&value.to_string())
            }

            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Quantity, E> {
                self.visit_str(&value.to_string())
            }

            fn visit_unit<E: de::Error>(self) -> Result<Quantity, E> {
                Ok(Quantity::default())
            }
        }
        deserializer.deserialize_any(Text)
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

/// `zeros` is at most [`MAX_DIGITS`].
fn power_of_ten(zeros: usize) -> u128 {
    10u128.pow(zeros as u32)
}

fn write_binary(f: &mut fmt::Formatter<'_>, mut whole: u128) -> fmt::Result {
    let mut suffix = "";
    for name in BINARY_SUFFIXES {
        if !whole.is_multiple_of(1024) {
            break;
        }
        whole /= 1024;
        suffix = name;
    }
    write!(f, "{whole}{suffix}")
}

fn write_decimal(f: &mut fmt::Formatter<'_>, amount: (u128, i32, usize)) -> fmt::Result {
    let (coefficient, power, zeros) = amount;
    match DECIMAL_SUFFIXES.iter().find(|(_, suffix)| *suffix == power) {
        Some((name, _)) => write!(f, "{coefficient}{:0<zeros$}{name}", ""),
        // No suffix beyond E: the exponent keeps the value.
        None => write_exponent(f, amount),
    }
}

fn write_exponent(f: &mut fmt::Formatter<'_>, amount: (u128, i32, usize)) -> fmt::Result {
    let (coefficient, power, zeros) = amount;
    write!(f, "{coefficient}{:0<zeros$}", "")?;
    match power {
        0 => Ok(()),
        _ => write!(f, "e{power}"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Typed and printed, as kubectl has them.
    const TABLE: &[(&str, &str)] = &[
        ("0", "0"),
        ("1", "1"),
        ("1.5", "1500m"),
        ("1.500", "1.500"),
        ("+5", "+5"),
        ("-5", "-5"),
        ("0.5", "500m"),
        (".5", "500m"),
        ("5.", "5."),
        ("1.Mi", "1.Mi"),
        ("00500m", "00500m"),
        ("1000", "1k"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("100Mi", "100Mi"),
        ("1024Mi", "1Gi"),
        ("1025Ki", "1025Ki"),
        ("1536Mi", "1536Mi"),
        ("0.5Gi", "512Mi"),
        ("1.5Gi", "1536Mi"),
        ("1Ei", "1Ei"),
        ("8Ei", "9223372036854775807"),
        ("-8Ei", "-9223372036854775807"),
        ("9223372036854775807", "9223372036854775807"),
        ("9223372036854775808", "9223372036854775808"),
        ("18446744073709551616", "18446744073709551616"),
        ("1e3", "1e3"),
        ("1E3", "1E3"),
        ("1.2e3", "1200"),
        ("1e-3", "1e-3"),
        ("1e-10", "1e-9"),
        ("0.1n", "1n"),
        ("0.9n", "1n"),
        ("1.1n", "2n"),
        ("1E", "1E"),
        ("-", "0"),
        (".", "0"),
        (".Mi", "0"),
        ("1e+3", "1e+3"),
        ("1000k", "1M"),
        ("999k", "999k"),
        ("1000000", "1M"),
        ("1.000001Ki", "1024001024u"),
        ("1.1Ki", "1126400m"),
        ("0.001Mi", "1048576m"),
        ("1.234567890123456789", "1234567891n"),
        ("120e6", "120e6"),
        ("1200e4", "12e6"),
        ("1e5", "100e3"),
        ("10", "10"),
        ("1e30", "1e30"),
        ("1e2147483647", "10e2147483646"),
        ("1024", "1024"),
        ("8Ki", "8Ki"),
        ("1000Ki", "1000Ki"),
        ("1024Ki", "1Mi"),
        ("-1.5Gi", "-1536Mi"),
        ("-0.5Mi", "-512Ki"),
        ("-0.0001n", "-1n"),
        ("1234567890123456789", "1234567890123456789"),
        ("1000000000000000000", "1E"),
        ("999999999999999999999", "999999999999999999999"),
        ("000", "0"),
        ("-0", "0"),
        ("0Mi", "0"),
        ("0e5", "0"),
        ("1.0", "1"),
        ("2.0Mi", "2Mi"),
        ("100.000", "100"),
        ("10.00e2", "1e3"),
        // Older clients drop this exponent and print "1".
        ("1000E", "1e21"),
    ];

    fn quantity(text: &str) -> Quantity {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn quantities_print_as_kubectl_prints_them() {
        for (typed, printed) in TABLE {
            assert_eq!(quantity(typed).to_string(), *printed, "{typed}");
        }
    }

    #[test]
    fn bad_text_is_refused_with_the_servers_message() {
        let check = |text: &str, error: ParseQuantityError| {
            assert_eq!(text.parse::<Quantity>().unwrap_err(), error, "{text}");
        };
        for text in [
            "", "1x", "abc", "1.2.3", "1Z", "1e3m", "0x10", "1_000", "5 ", "é", "1é",
        ] {
            check(text, ParseQuantityError::Format);
        }
        for text in [
            "1e",
            "1Kii",
            "1i",
            "1Ki1",
            "1m1",
            "1ee3",
            "1e99999999999999999999",
        ] {
            check(text, ParseQuantityError::Suffix);
        }
        check(&"7".repeat(MAX_DIGITS + 1), ParseQuantityError::Numeric);
        check("10e2147483647", ParseQuantityError::Numeric);
    }

    #[test]
    fn amounts_are_compared_not_texts() {
        let ascending = [
            "-1e2147483647",
            "-1k",
            "-1",
            "-1m",
            "0",
            "1n",
            "999m",
            "1",
            "1k",
            "1Ki",
            "1025",
            "1Ei",
            "1e2147483647",
        ];
        for pair in ascending.windows(2) {
            assert!(quantity(pair[0]) < quantity(pair[1]), "{pair:?}");
        }
        assert_eq!(quantity("1"), quantity("1000m"));
        assert_eq!(quantity("1Mi"), quantity("1048576"));
        assert_eq!(quantity("0Mi"), quantity("-0"));
    }

    #[test]
    fn sums_keep_the_first_format() {
        let check = |left: &str, right: &str, sum: &str| {
            assert_eq!(
                quantity(left).checked_add(&quantity(right)).unwrap().to_string(),
                sum
            );
        };
        check("512Mi", "512Mi", "1Gi");
        check("1", "500m", "1500m");
        check("0", "1Mi", "1Mi");
        check("1Mi", "-1Mi", "0");
        assert_eq!(
            quantity("1Gi").checked_sub(&quantity("1Mi")).unwrap().to_string(),
            "1023Mi"
        );
        assert_eq!(quantity("1e60").checked_add(&quantity("1n")), None);
    }

    #[test]
    fn whole_numbers_are_rounded_away_from_zero() {
        assert_eq!(quantity("1.1").to_i64(), Some(2));
        assert_eq!(quantity("-1.1").to_i64(), Some(-2));
        assert_eq!(quantity("1.0001").to_milli(), Some(1001));
        assert_eq!(quantity("1e30").to_i64(), None);
        assert_eq!(quantity("0").to_i64(), Some(0));
    }

    #[test]
    fn json_may_hold_text_or_numbers() {
        let check = |json: &str, printed: &str| {
            let read: Quantity = serde_json::from_str(json).unwrap();
            assert_eq!(serde_json::to_string(&read).unwrap(), printed);
        };
        check("\"1024Ki\"", "\"1Mi\"");
        check("\" 5 \"", "\"5\"");
        check("2", "\"2\"");
        check("0.5", "\"500m\"");
        check("null", "\"0\"");
        let error = serde_json::from_str::<Quantity>("\"1x\"").unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("quantities must match the regular expression")
        );
    }

    proptest! {
        #[test]
        fn printing_keeps_the_amount(coefficient in any::<i64>(), power in -12..30i32) {
            let typed = quantity(&format!("{coefficient}e{power}"));
            prop_assert_eq!(quantity(&typed.to_string()), typed);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[-+]?[0-9.]{0,45}[eEinumkKMGTP]{0,2}[-+]?[0-9]{0,10}") {
            if let Ok(read) = text.parse::<Quantity>() {
                let printed = read.to_string();
                prop_assert_eq!(quantity(&printed), read, "{} printed as {}", text, printed);
            }
        }

        #[test]
        fn sums_and_order_agree_with_integers(left in any::<i32>(), right in any::<i32>()) {
            let of = |value: i64| Quantity::new(value, QuantityFormat::BinarySi);
            let (a, b) = (of(left.into()), of(right.into()));
            prop_assert_eq!(a.cmp(&b), left.cmp(&right));
            prop_assert_eq!(a.checked_add(&b).unwrap().to_i64(), Some(i64::from(left) + i64::from(right)));
            prop_assert_eq!(a.checked_sub(&b).unwrap().to_i64(), Some(i64::from(left) - i64::from(right)));
        }
    }
}
