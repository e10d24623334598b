//! The meaning of plain scalars: kubectl's reading of YAML 1.1.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Number, Value};

use super::lookalike::{is_base_60, is_timestamp};
use super::{YamlErrorKind, float};

const TAG_PREFIX: &str = "tag:yaml.org,2002:";

/// The tag of a merge key.
pub(super) const MERGE_TAG: &str = "tag:yaml.org,2002:merge";

/// The type of a plain scalar.
#[derive(Debug, PartialEq)]
enum Meaning {
    Null,
    Bool(bool),
    Integer(Number),
    Float(f64),
    /// Text that is quoted when written.
    Timestamp,
    Text,
}

/// The value of a scalar. `plain` means unquoted; a tag decides in either case.
pub(super) fn resolve(tag: Option<&str>, plain: bool, text: String) -> Result<Value, YamlErrorKind> {
    let Some(tag) = tag else {
        return if plain {
            to_value(meaning(&text), text)
        } else {
            Ok(Value::String(text))
        };
    };
    let tag = match tag.strip_prefix(TAG_PREFIX) {
        Some("null") => "!!null",
        Some("bool") => "!!bool",
        Some("int") => "!!int",
        Some("float") => "!!float",
        Some("timestamp") => "!!timestamp",
        Some("binary") => return decode_base64(&text),
        // `!!str` and application tags.
        _ => return Ok(Value::String(text)),
    };
    let meaning = match (tag, meaning(&text)) {
        ("!!float", Meaning::Integer(number)) => Meaning::Float(number.as_f64().unwrap_or(0.0)),
        (_, meaning) => meaning,
    };
    match meaning.tag() {
        found if found == tag => to_value(meaning, text),
        found => Err(YamlErrorKind::Tag { found, text, tag }),
    }
}

/// The text of a float key. Unlike a value it keeps its exponent: it does not pass through JSON.
pub(super) fn float_key(word: &str) -> Option<String> {
    match meaning(word) {
        Meaning::Float(value) => Some(float::key_text(value)),
        _ => None,
    }
}

/// True if the text would be read as something else without quotes.
pub(super) fn needs_quotes(text: &str) -> bool {
    text == "<<" || meaning(text) != Meaning::Text || is_base_60(text)
}

impl Meaning {
    fn tag(&self) -> &'static str {
        match self {
            Self::Null => "!!null",
            Self::Bool(_) => "!!bool",
            Self::Integer(_) => "!!int",
            Self::Float(_) => "!!float",
            Self::Timestamp => "!!timestamp",
            Self::Text => "!!str",
        }
    }
}

fn to_value(meaning: Meaning, text: String) -> Result<Value, YamlErrorKind> {
    Ok(match meaning {
        Meaning::Null => Value::Null,
        Meaning::Bool(value) => Value::Bool(value),
        Meaning::Integer(number) => Value::Number(number),
        Meaning::Float(value) => json_number(value)?,
        Meaning::Timestamp | Meaning::Text => Value::String(text),
    })
}

/// Through JSON, `1e3` is 1000: an integral float that fits 64 bits is an integer.
fn json_number(value: f64) -> Result<Value, YamlErrorKind> {
    /// From here on, integers do not fit 64 bits.
    const INTEGER_BOUND: f64 = 9_223_372_036_854_775_808.0;
    if value.fract() == 0.0 && (-INTEGER_BOUND..INTEGER_BOUND).contains(&value) {
        return Ok(Value::Number((value as i64).into()));
    }
    let name = match value {
        _ if value.is_nan() => "NaN",
        f64::INFINITY => "+Inf",
        _ => "-Inf",
    };
    Number::from_f64(value)
        .map(Value::Number)
        .ok_or(YamlErrorKind::Number(name))
}

fn decode_base64(text: &str) -> Result<Value, YamlErrorKind> {
    let compact: String = text.split(['\n', '\r']).collect();
    let bytes = STANDARD.decode(compact).map_err(|_| YamlErrorKind::Base64)?;
    Ok(Value::String(String::from_utf8_lossy(&bytes).into_owned()))
}

fn meaning(text: &str) -> Meaning {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Meaning::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Meaning::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Meaning::Bool(false)
        }
        ".nan" | ".NaN" | ".NAN" => Meaning::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Meaning::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Meaning::Float(f64::NEG_INFINITY),
        _ => match text.as_bytes()[0] {
            b'.' => decimal(text).map_or(Meaning::Text, Meaning::Float),
            b'+' | b'-' | b'0'..=b'9' => number(text),
            _ => Meaning::Text,
        },
    }
}

fn number(text: &str) -> Meaning {
    if is_timestamp(text) {
        return Meaning::Timestamp;
    }
    let digits = text.replace('_', "");
    if let Some(number) = integer(&digits) {
        return Meaning::Integer(number);
    }
    decimal(&digits).map_or(Meaning::Text, Meaning::Float)
}

/// An integer with a sign and Go's prefixes: 0x, 0o, 0b, and 0 alone for octal.
fn integer(text: &str) -> Option<Number> {
    let (negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (radix, digits) = match unsigned.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &unsigned[2..]),
        [b'0', b'o' | b'O', ..] => (8, &unsigned[2..]),
        [b'0', b'b' | b'B', ..] => (2, &unsigned[2..]),
        [b'0', _, ..] => (8, &unsigned[1..]),
        _ => (10, unsigned),
    };
    // A second sign is not allowed.
    if !digits.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return None;
    }
    if negative {
        return i64::from_str_radix(&format!("-{digits}"), radix)
            .ok()
            .map(Number::from);
    }
    let value = u64::from_str_radix(digits, radix).ok()?;
    // Only unsigned text may use the 64th bit.
    (value <= i64::MAX as u64 || unsigned.len() == text.len()).then(|| value.into())
}

/// A decimal with an optional point and exponent; `None` if it overflows a float.
fn decimal(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (
            mantissa,
            Some(exponent.strip_prefix(['-', '+']).unwrap_or(exponent)),
        ),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits_only = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    let well_formed = !(whole.is_empty() && fraction.is_empty())
        && digits_only(whole)
        && digits_only(fraction)
        && exponent.is_none_or(|exponent| !exponent.is_empty() && digits_only(exponent));
    if !well_formed {
        return None;
    }
    text.parse().ok().filter(|value: &f64| value.is_finite())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn words_mean_what_they_mean_to_kubectl() {
        let check = |text: &str, value: Value| {
            assert_eq!(resolve(None, true, text.to_owned()), Ok(value), "{text}");
        };
        for word in ["y", "Yes", "ON", "true", "TRUE"] {
            check(word, json!(true));
        }
        for word in ["n", "No", "off", "False"] {
            check(word, json!(false));
        }
        for word in ["", "~", "null", "NULL"] {
            check(word, Value::Null);
        }
        for word in [
            "yEs",
            "nil",
            "tRue",
            "_1",
            "+",
            "-",
            ".",
            "0x",
            "0b12",
            "+.inf1",
            "0x1FFFFFFFFFFFFFFFFF",
        ] {
            check(word, json!(word));
        }
        for word in [
            "2001-01-01",
            "2001-01-01T00:00:00Z",
            "12:30:45",
            "123e456",
            "1.2.3",
            "++1",
            "0x+1",
            "1e",
            "--1",
        ] {
            check(word, json!(word));
        }
        check("0644", json!(420));
        check("0o17", json!(15));
        check("-0b11", json!(-3));
        check("0xFf", json!(255));
        check("1_000", json!(1000));
        check("1__0_", json!(10));
        check("+12", json!(12));
        check("-0", json!(0));
        check("08", json!(8));
        check("1.0", json!(1));
        check("1e3", json!(1000));
        check("12e03", json!(12000));
        check("5.", json!(5));
        check(".5", json!(0.5));
        check("1_000.5", json!(1000.5));
        check("1e-7", json!(1e-7));
        check("9223372036854775807", json!(i64::MAX));
        check("-9223372036854775808", json!(i64::MIN));
        check("18446744073709551615", json!(u64::MAX));
        check("99999999999999999999", json!(1e20));
    }

    #[test]
    fn tags_decide() {
        let check = |tag: &str, text: &str, value: Value| {
            let tag = format!("{TAG_PREFIX}{tag}");
            assert_eq!(resolve(Some(&tag), false, text.to_owned()), Ok(value));
        };
        check("str", "5", json!("5"));
        check("int", "5", json!(5));
        check("float", "3", json!(3));
        check("bool", "yes", json!(true));
        check("null", "", Value::Null);
        check("binary", "aGVs\nbG8=", json!("hello"));
        check("timestamp", "2001-01-01", json!("2001-01-01"));
        let error = resolve(Some("tag:yaml.org,2002:int"), true, "foo".to_owned()).unwrap_err();
        assert_eq!(error.to_string(), "cannot decode !!str `foo` as a !!int");
        assert_eq!(resolve(Some("!mine"), true, "5".to_owned()), Ok(json!("5")));
    }

    #[test]
    fn infinity_is_refused() {
        let check = |text: &str, message: &str| {
            assert_eq!(
                resolve(None, true, text.to_owned()).unwrap_err().to_string(),
                message
            );
        };
        check(".inf", "unsupported value: +Inf");
        check("-.inf", "unsupported value: -Inf");
        check(".nan", "unsupported value: NaN");
    }

    #[test]
    fn what_looks_like_something_else_is_quoted() {
        for text in [
            "yes",
            "1",
            "0644",
            "1_0",
            "",
            "null",
            "<<",
            "2001-1-2",
            "2001-01-01 10:00:00",
            "12:30:45",
            "1:2.5",
        ] {
            assert!(needs_quotes(text), "{text}");
        }
        for text in ["a", "1a", "1:60", "2001-13-01", "10:", "v1", "1.2.3.4", "12:30:"] {
            assert!(!needs_quotes(text), "{text}");
        }
    }
}
