//! Generated names: the client's prefix and five random characters.

/// The characters of a suffix: no vowels, so that no words appear, and none that are easily confused.
pub const GENERATED_NAME_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The length of a suffix.
pub const GENERATED_SUFFIX: usize = 5;

/// The longest prefix that is kept, so that the name is still a DNS label.
pub const MAX_GENERATED_PREFIX: usize = 63 - GENERATED_SUFFIX;

/// Joins prefix and suffix; `random(n)` returns a number below `n`.
pub fn generated_name(prefix: &str, mut random: impl FnMut(usize) -> usize) -> String {
    // Cut at a character boundary. A prefix with multi-byte characters is invalid anyway.
    let cut = (0..=MAX_GENERATED_PREFIX.min(prefix.len()))
        .rev()
        .find(|at| prefix.is_char_boundary(*at));
    let mut name = prefix[..cut.unwrap_or(0)].to_owned();
    for _ in 0..GENERATED_SUFFIX {
        let index = random(GENERATED_NAME_ALPHABET.len()) % GENERATED_NAME_ALPHABET.len();
        name.push(char::from(GENERATED_NAME_ALPHABET[index]));
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_prefixes_are_cut() {
        let mut next = 0..;
        let mut random = |_| next.next().unwrap();
        assert_eq!(generated_name("x-", &mut random), "x-bcdfg");
        assert_eq!(
            generated_name(&"l".repeat(70), &mut random),
            format!("{}hjklm", "l".repeat(58))
        );
        assert_eq!(generated_name(&"é".repeat(40), |_| 26).len(), 63);
    }
}
