//! Lists of names with `*` and `-name`, as `--controllers` of kube-controller-manager reads them.

use serde::Deserialize;

/// `*` is everything, `web-*` what begins so, `-name` takes away. Taking away wins. A list that only takes away, or an empty
/// one, means everything else.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(transparent)]
pub struct Patterns(Vec<String>);

impl Patterns {
    /// From the words of a flag or a file.
    pub fn new(words: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Patterns(words.into_iter().map(Into::into).collect())
    }

    /// Whether `name` is meant.
    pub fn allows(&self, name: &str) -> bool {
        let mut includes = self.words().filter(|(taken, _)| !taken).peekable();
        let excluded = self.words().any(|(taken, pattern)| taken && matches(pattern, name));
        !excluded && (includes.peek().is_none() || includes.any(|(_, pattern)| matches(pattern, name)))
    }

    /// Words that mean none of `known`: most likely misspelt.
    pub fn unknown<'a>(&'a self, known: &[&str]) -> Vec<&'a str> {
        let strange = |(_, pattern): &(bool, &str)| !known.iter().any(|name| matches(pattern, name));
        self.words().filter(strange).map(|(_, pattern)| pattern).collect()
    }

    /// Whether everything is meant.
    pub fn is_everything(&self) -> bool {
        self.0.is_empty()
    }

    fn words(&self) -> impl Iterator<Item = (bool, &str)> {
        self.0.iter().map(|word| match word.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, word.as_str()),
        })
    }
}

/// Whether `text` is `pattern`, in which `*` stands for any run of characters.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else { return pattern == text };
    let Some(rest) = text.strip_prefix(head) else { return false };
    if !tail.contains('*') {
        return rest.ends_with(tail);
    }
    rest.char_indices().map(|(at, _)| at).chain([rest.len()]).any(|at| matches(tail, &rest[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_names_mean_what_kube_controller_manager_means() {
        // KC-2
        let table: [(&[&str], &str, bool); 12] = [
            (&[], "at", true),
            (&["*"], "at", true),
            (&["*", "-at"], "at", false),
            (&["*", "-at"], "redismigration", true),
            (&["-at"], "redismigration", true),
            (&["at"], "redismigration", false),
            (&["at", "-at"], "at", false),
            (&["re*ion"], "redismigration", true),
            (&["re*ion"], "redis", false),
            (&["*dis*gra*"], "redismigration", true),
            (&["shop/*"], "shop/web", true),
            (&["shop/*", "-*/web"], "shop/web", false),
        ];
        for (list, name, allowed) in table {
            assert_eq!(Patterns::new(list.iter().copied()).allows(name), allowed, "{list:?} and {name}");
        }
    }

    #[test]
    fn words_that_mean_nothing_are_named() {
        let patterns = Patterns::new(["*", "-att", "redis*"]);
        assert_eq!(patterns.unknown(&["at", "redismigration"]), ["att"]);
    }
}
