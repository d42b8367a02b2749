//! Text that must not be seen: it shows itself nowhere by accident and is wiped when dropped.

use std::fmt;

use zeroize::Zeroizing;

/// A token, a key, a kubeconfig. `Debug` and `Display` do not show it; [`Secret::reveal`] does, and is easy to search for.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes the text in.
    pub fn new(text: impl Into<String>) -> Self {
        Secret(Zeroizing::new(text.into()))
    }

    /// The text itself, for whoever sends it to where it belongs.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_shown() {
        // B-17
        let secret = Secret::new("canary-7");
        let shown = format!("{secret} {secret:?} {:?}", Some(&secret));
        assert!(!shown.contains("canary"), "{shown}");
        assert_eq!(secret.reveal(), "canary-7");
    }
}
