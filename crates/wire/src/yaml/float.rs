//! Floats in the shortest form that reads back, formatted as by Go's `%g`.

use std::fmt::LowerExp;

/// Go uses an exponent below this power of ten, …
const SMALLEST_PLAIN: i32 = -4;
/// … and from this one on.
const SMALLEST_LARGE: i32 = 6;

/// A float value as kubectl prints it.
///
/// Integral floats have passed through JSON and lost their point and exponent.
pub(super) fn value_text(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e21 {
        // Adding zero turns -0 into 0.
        return format!("{:.0}", value + 0.0);
    }
    shortest(value)
}

/// A float as a key, as kubectl prints it: in single precision.
pub(super) fn key_text(value: f64) -> String {
    if value.abs() > f64::from(f32::MAX) {
        return if value > 0.0 {
            ".inf".to_owned()
        } else {
            "-.inf".to_owned()
        };
    }
    shortest(value as f32)
}

/// The fewest digits that read back, with an exponent where Go uses one.
fn shortest(value: impl LowerExp) -> String {
    let text = format!("{value:e}");
    let Some((mantissa, exponent)) = text.split_once('e') else {
        return text;
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(SMALLEST_PLAIN..SMALLEST_LARGE).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs());
    }
    plain(mantissa, exponent)
}

/// `1.25` and 1 → `12.5`; `1.25` and -2 → `0.0125`.
fn plain(mantissa: &str, exponent: i32) -> String {
    let (sign, digits) = match mantissa.strip_prefix('-') {
        Some(digits) => ("-", digits.replace('.', "")),
        None => ("", mantissa.replace('.', "")),
    };
    match usize::try_from(exponent) {
        Err(_) => format!(
            "{sign}0.{}{digits}",
            "0".repeat(exponent.unsigned_abs() as usize - 1)
        ),
        Ok(whole) if digits.len() <= whole + 1 => format!("{sign}{digits:0<width$}", width = whole + 1),
        Ok(whole) => format!("{sign}{}.{}", &digits[..=whole], &digits[whole + 1..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_as_gos_do() {
        let check = |value: f64, text: &str| assert_eq!(value_text(value), text);
        check(1.0, "1");
        check(-0.0, "0");
        check(0.5, "0.5");
        check(-12.5, "-12.5");
        check(0.0001, "0.0001");
        check(0.00001, "1e-05");
        check(123456.5, "123456.5");
        check(1234567.5, "1.2345675e+06");
        check(1e20, "100000000000000000000");
        check(1e21, "1e+21");
        check(1.5e300, "1.5e+300");
        check(5e-324, "5e-324");
        assert_eq!(key_text(1.5), "1.5");
        assert_eq!(key_text(0.1), "0.1");
        assert_eq!(key_text(1e6), "1e+06");
        assert_eq!(key_text(1e300), ".inf");
    }
}
