//! The names of a reconciler, each as its place wants it.

use super::Reconciler;

/// Words Rust keeps for itself, and modules that are there already.
const RESERVED: [&str; 44] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn", "else",
    "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro", "main",
    "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "runtime", "self", "static", "super",
    "trait", "types", "use", "where",
];

#[derive(Debug)]
pub struct Names {
    /// As it was asked for: `disk-check`.
    pub name: String,
    /// `disk_check`.
    pub module: String,
    /// `DiskCheck`.
    pub kind: String,
    /// `diskchecks`.
    pub plural: String,
    group: String,
    version: String,
}

impl Names {
    pub fn new(flags: &Reconciler) -> Result<Names, String> {
        let name = flags.name.clone();
        let lower = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let well_formed = name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.ends_with(lower)
            && name.chars().all(|c| lower(c) || c == '-')
            && !name.contains("--")
            && name.len() <= 40;
        if !well_formed {
            return Err(format!(
                "{name:?} is no name; write lower-case letters, digits and single dashes, such as disk-check"
            ));
        }
        let module = name.replace('-', "_");
        if RESERVED.contains(&module.as_str()) {
            return Err(format!("{name:?} has a meaning of its own in Rust; choose another name"));
        }
        let kind = flags.kind.clone().unwrap_or_else(|| name.split('-').map(capitalised).collect());
        if !kind.starts_with(|c: char| c.is_ascii_uppercase()) || !kind.chars().all(|c| c.is_ascii_alphanumeric()) {
            return Err(format!("{kind:?} is no kind; write it like DiskCheck"));
        }
        let label = |part: &str| {
            !part.is_empty()
                && part.chars().all(|c| lower(c) || c == '-')
                && !part.starts_with('-')
                && !part.ends_with('-')
        };
        let group = flags.group.clone();
        if !group.contains('.') || group.len() > 200 || !group.split('.').all(label) {
            return Err(format!("{group:?} is no group; write a domain of yours, such as demo.example.org"));
        }
        let version = flags.version.clone();
        let numbered = version.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        if !numbered || !label(&version) {
            return Err(format!("{version:?} is no version; write it like v1 or v1alpha1"));
        }
        Ok(Names { plural: plural(&kind.to_ascii_lowercase()), name, module, kind, group, version })
    }

    pub fn fill(&self, template: &str) -> String {
        template
            .replace("__name__", &self.name)
            .replace("__module__", &self.module)
            .replace("__Kind__", &self.kind)
            .replace("__plural__", &self.plural)
            .replace("__group__", &self.group)
            .replace("__version__", &self.version)
    }
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + letters.as_str())
}

/// As the derive of kube makes it when nothing is said; said all the same, so that people can search for it.
fn plural(word: &str) -> String {
    let vowel = |c: Option<char>| matches!(c, Some('a' | 'e' | 'i' | 'o' | 'u'));
    match word {
        _ if ["s", "x", "z", "ch", "sh"].iter().any(|end| word.ends_with(end)) => format!("{word}es"),
        _ if word.ends_with('y') && !vowel(word.chars().rev().nth(1)) => format!("{}ies", &word[..word.len() - 1]),
        _ => format!("{word}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(name: &str, kind: Option<&str>, group: &str, version: &str) -> Result<Names, String> {
        Names::new(&Reconciler {
            name: name.to_owned(),
            kind: kind.map(str::to_owned),
            group: group.to_owned(),
            version: version.to_owned(),
            phases: false,
            runtime: None,
            dir: None,
        })
    }

    #[test]
    fn names_are_made_for_each_place() {
        let names = names("disk-policy", None, "demo.example.org", "v1alpha1").unwrap();
        let all = (names.module.as_str(), names.kind.as_str(), names.plural.as_str());
        assert_eq!(all, ("disk_policy", "DiskPolicy", "diskpolicies"));
        assert_eq!(names.fill("__Kind__ __group__/__version__"), "DiskPolicy demo.example.org/v1alpha1");
        assert_eq!(
            (plural("box"), plural("day"), plural("greeting")),
            ("boxes".into(), "days".into(), "greetings".into())
        );
    }

    #[test]
    fn names_that_fit_nowhere_are_refused() {
        for name in ["", "A", "a_b", "-a", "a-", "a--b", "1a", "../x", "type s", "match", "main", "ä"] {
            assert!(names(name, None, "a.b", "v1").is_err(), "{name}");
        }
        for (kind, group, version) in [
            ("lower", "a.b", "v1"),
            ("Has-Dash", "a.b", "v1"),
            ("A", "nodots", "v1"),
            ("A", "a..b", "v1"),
            ("A", "a.b", "1"),
        ] {
            assert!(names("good", Some(kind), group, version).is_err(), "{kind} {group} {version}");
        }
    }
}
