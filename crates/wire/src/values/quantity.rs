//! Quantities: `500m` of a processor, `1536Mi` of memory, `12e6` of anything.
//!
//! A quantity is an exact decimal number, never a float, with the suffix format it was written in. It prints in
//! canonical form: no fraction, the largest suffix without loss.
//!
//! ```text
//! typed      kept as            prints
//! 1.5        15 · 10^-1         1500m
//! 0.5Gi      536870912 · 10^0   512Mi
//! 1.1n       2 · 10^-9          2n        finer than nano: rounded away from zero
//! 8Ei        2^63-1             9223372036854775807   binary amounts are saturate
//! ```

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

mod amount;
mod parse;

use amount::Amount;
pub(crate) use parse::is_plain_quantity;

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

/// The suffix format a quantity is printed in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum QuantityFormat {
    /// `12M`: n, u, m, k, M, G, T, P, E.
    #[default]
    DecimalSi,
    /// `12Mi`: Ki to Ei. Quantities below 1024, or with a fraction, print as decimal.
    BinarySi,
    /// `12e6`.
    DecimalExponent,
}

/// Text that is not a quantity. The messages are the API server's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseQuantityError {
    /// The text does not split into number and suffix.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// More digits than a quantity can hold.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    /// An unknown suffix, such as `1Kii`.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// An exact quantity. Equality compares the amount, not the notation.
#[derive(Clone, Debug, Default)]
pub struct Quantity {
    amount: Amount,
    format: QuantityFormat,
    /// The text as written, if Kubernetes echoes it although it is not canonical (`1.500`, `+5`).
    typed: Option<Box<str>>,
}

impl Quantity {
    /// A whole number.
    pub fn new(value: i64, format: QuantityFormat) -> Self {
        Self::scaled(value, 0, format)
    }

    /// A number of thousandths.
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

    /// The suffix format it prints in.
    pub fn format(&self) -> QuantityFormat {
        self.format
    }

    /// True if it is zero.
    pub fn is_zero(&self) -> bool {
        self.amount.coefficient == 0
    }

    /// True if it is negative.
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

    /// The sum; `None` if it has more digits than a quantity can hold. Zero takes the other's format.
    pub fn checked_add(&self, other: &Self) -> Option<Self> {
        Some(Self {
            amount: self.amount.checked_add(other.amount)?,
            format: if self.is_zero() { other.format } else { self.format },
            typed: None,
        })
    }

    /// The difference; `None` if it has more digits than a quantity can hold.
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
    /// Text or a number; null is zero.
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
        // There is no suffix beyond E: print an exponent.
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

    /// As typed and as printed by kubectl.
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
        check(&"7".repeat(amount::MAX_DIGITS + 1), ParseQuantityError::Numeric);
        check("10e2147483647", ParseQuantityError::Numeric);
    }

    #[test]
    fn what_people_write_is_plain() {
        for text in ["0", "1", "250m", "100k", "512Mi", "1000Gi"] {
            assert!(is_plain_quantity(text), "{text}");
        }
        for text in [
            "", "m", "1000", "1000m", "1024Mi", "0Mi", "01", "1.5", "-1", "1e3", " 1", "1Ti",
        ] {
            assert!(!is_plain_quantity(text), "{text}");
        }
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
        fn plain_quantities_print_as_they_are(text in "[0-9]{1,12}([mkMG]|[KMG]i)?") {
            if is_plain_quantity(&text) {
                prop_assert_eq!(quantity(&text).to_string(), text);
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
