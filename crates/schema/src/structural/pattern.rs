//! The patterns of one schema, which share what they may take.

use cel::pattern::{self, Refused};
use regex::Regex;

/// Most patterns compile to a few KiB; the rare large one pays from the schema's allowance.
const SMALL: usize = 32 << 10;
const LARGE: usize = 1 << 20;

/// What the patterns of one schema may take together.
pub(crate) const ALLOWANCE: usize = 256 << 20;

/// Compiles a Go pattern and charges `allowance` for it. The error is worded as Go's `regexp` words it.
pub(crate) fn compile(pattern: &str, allowance: &mut usize) -> Result<Regex, String> {
    let (regex, size) = match pattern::compile(pattern, SMALL) {
        Err(Refused::TooLarge) => (pattern::compile(pattern, LARGE), LARGE),
        other => (other, SMALL),
    };
    let regex = regex.map_err(|why| why.to_string())?;
    *allowance =
        allowance.checked_sub(size).ok_or("error parsing regexp: expression nests too deeply: too many patterns")?;
    Ok(regex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_cannot_take_more_than_their_allowance() {
        assert!(compile(r"\pL{900}\pL{900}", &mut ALLOWANCE.clone()).is_err());
        let mut little = SMALL;
        assert!(compile("a", &mut little).is_ok());
        assert!(compile("a", &mut little).is_err());
    }
}
