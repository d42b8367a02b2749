//! Where the cursor is in a line that is not finished: which command, what was given, what is wanted next. Pure.

use std::collections::BTreeMap;

use clap::{Arg, ArgAction, Command};

/// What could stand at the cursor.
#[derive(Debug)]
pub enum Wanted<'a> {
    /// The value of a flag.
    Value(&'a Arg),
    /// The next argument if there is one, a command, or a flag.
    Next(Option<&'a Arg>),
    /// Nothing we know of: words for somebody else.
    Nothing,
}

#[derive(Debug)]
pub struct Place<'a> {
    /// The names of the commands down to this one.
    pub path: Vec<&'a str>,
    pub command: &'a Command,
    /// What was given to it, by the argument's id.
    pub given: BTreeMap<&'a str, String>,
    pub wanted: Wanted<'a>,
    /// `--cluster=`, where the value is in the flag's own word.
    pub flag: String,
    /// `a,b,` before the last of several values.
    pub list: String,
    /// What was typed of it.
    pub begun: String,
}

/// Goes along the words; the last one is at the cursor. Nothing where the line is not ours to complete.
pub fn find<'a>(root: &'a Command, words: &[String]) -> Option<Place<'a>> {
    let (last, before) = words.split_last()?;
    let mut walk =
        Walk { command: root, path: Vec::new(), given: BTreeMap::new(), pending: None, at: 0, escaped: false };
    before.iter().for_each(|word| walk.word(word));
    let (mut flag, mut begun) = (String::new(), last.clone());
    let wanted = match (walk.pending, walk.escaped) {
        (_, true) => Wanted::Nothing,
        (Some(arg), _) => Wanted::Value(arg),
        (None, _) => match last.split_once('=').filter(|(name, _)| name.starts_with("--")) {
            Some((name, value)) => {
                let arg = walk.long(name.trim_start_matches('-'))?;
                (flag, begun) = (format!("{name}="), value.to_owned());
                Wanted::Value(arg)
            }
            None => Wanted::Next(walk.next()),
        },
    };
    let mut list = String::new();
    if let Wanted::Value(arg) = &wanted
        && let Some(mark) = arg.get_value_delimiter()
        && let Some((earlier, last)) = begun.clone().rsplit_once(mark)
    {
        (list, begun) = (format!("{earlier}{mark}"), last.to_owned());
    }
    let Walk { command, path, given, .. } = walk;
    Some(Place { path, command, given, wanted, flag, list, begun })
}

struct Walk<'a> {
    command: &'a Command,
    path: Vec<&'a str>,
    given: BTreeMap<&'a str, String>,
    /// A flag whose value comes next.
    pending: Option<&'a Arg>,
    /// How many arguments were given.
    at: usize,
    /// Behind `--`.
    escaped: bool,
}

impl<'a> Walk<'a> {
    fn word(&mut self, word: &str) {
        if self.escaped {
            return;
        }
        if let Some(arg) = self.pending.take() {
            self.given.insert(arg.get_id().as_str(), word.to_owned());
            return;
        }
        match word {
            "--" => self.escaped = true,
            "-" => self.argument(word),
            _ if word.starts_with("--") => self.long_flag(&word[2..]),
            _ if word.starts_with('-') => self.short_flags(&word[1..]),
            _ => self.argument(word),
        }
    }

    fn long_flag(&mut self, word: &str) {
        let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
        if let Some(arg) = self.long(name) {
            self.flag(arg, value);
        }
    }

    /// `-v`, `-n shop`, `-nshop`, `-fp`.
    fn short_flags(&mut self, letters: &str) {
        for (at, letter) in letters.char_indices() {
            let Some(arg) = self.command.get_arguments().find(|arg| arg.get_short() == Some(letter)) else { return };
            if arg.get_action().takes_values() {
                let rest = letters[at + letter.len_utf8()..].trim_start_matches('=');
                self.flag(arg, Some(rest).filter(|rest| !rest.is_empty()));
                return;
            }
            self.flag(arg, None);
        }
    }

    fn flag(&mut self, arg: &'a Arg, value: Option<&str>) {
        match value {
            None if arg.get_action().takes_values() && !arg.is_require_equals_set() => self.pending = Some(arg),
            value => {
                self.given.insert(arg.get_id().as_str(), value.unwrap_or_default().to_owned());
            }
        }
    }

    fn argument(&mut self, word: &str) {
        if let Some(inner) = self.command.find_subcommand(word) {
            self.command = inner;
            self.path.push(inner.get_name());
            self.given.clear();
            self.at = 0;
            return;
        }
        if let Some(arg) = self.next() {
            self.given.insert(arg.get_id().as_str(), word.to_owned());
            // One that takes several takes all the rest.
            self.at += usize::from(!matches!(arg.get_action(), ArgAction::Append));
        }
    }

    fn next(&self) -> Option<&'a Arg> {
        self.command.get_positionals().filter(|arg| !arg.is_last_set()).nth(self.at)
    }

    fn long(&self, name: &str) -> Option<&'a Arg> {
        let called = |arg: &&Arg| {
            arg.get_long() == Some(name) || arg.get_all_aliases().is_some_and(|aliases| aliases.contains(&name))
        };
        self.command.get_arguments().find(called)
    }
}

impl Place<'_> {
    /// What was given for an argument, or stands in its environment variable.
    pub fn said(&self, id: &str) -> Option<String> {
        let variable = || {
            let arg = self.command.get_arguments().find(|arg| arg.get_id() == id)?;
            std::env::var(arg.get_env()?).ok()
        };
        self.given.get(id).cloned().or_else(variable).filter(|said| !said.is_empty())
    }
}

/// Bash takes `--flag=value` for three words. Says whether the last one was put together.
pub fn joined(words: Vec<String>) -> (Vec<String>, bool) {
    let mut whole: Vec<String> = Vec::new();
    let (mut open, mut put) = (false, false);
    for word in words {
        match whole.last_mut() {
            Some(before) if word == "=" && before.starts_with("--") && !before.contains('=') => {
                before.push('=');
                (open, put) = (true, true);
            }
            Some(before) if open => {
                before.push_str(&word);
                (open, put) = (false, true);
            }
            _ => {
                whole.push(word);
                (open, put) = (false, false);
            }
        }
    }
    (whole, put)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use proptest::prelude::*;

    use super::*;
    use crate::cli::Cli;

    fn root() -> Command {
        let mut root = Cli::command();
        root.build();
        root
    }

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    /// The command, the argument that is wanted, what was typed of it.
    fn at(line: &str) -> (String, String, String) {
        let root = root();
        let place = find(&root, &words(line)).unwrap();
        let wanted = match place.wanted {
            Wanted::Value(arg) => format!("={}", arg.get_id()),
            Wanted::Next(arg) => arg.map(|arg| arg.get_id().to_string()).unwrap_or_default(),
            Wanted::Nothing => "nothing".to_owned(),
        };
        (place.path.join(" "), wanted, place.begun)
    }

    #[test]
    fn the_cursor_is_found_behind_flags_values_and_commands() {
        for (line, path, wanted, begun) in [
            ("", "", "", ""),
            ("cluster get be", "cluster get", "name", "be"),
            ("cluster ls ", "cluster list", "", ""),
            ("pods --cluster ", "pods", "=cluster", ""),
            ("pods --cluster=bei", "pods", "=cluster", "bei"),
            ("pods web -n ", "pods", "=namespace", ""),
            ("pods -nshop ", "pods", "app", ""),
            ("logs -fp web", "logs", "word", "web"),
            ("logs --tail 3 --follow ", "logs", "word", ""),
            ("exec web-0 -- ls ", "exec", "nothing", ""),
            ("cluster import prod --wait --label ", "cluster import", "=labels", ""),
            ("crds apply a ", "crds apply", "names", ""),
            ("cluster import p --member-token-file ", "cluster import", "=service_account_token", ""),
            ("pods --nonsense x", "pods", "app", "x"),
        ] {
            let found = at(line);
            assert_eq!((found.0.as_str(), found.1.as_str(), found.2.as_str()), (path, wanted, begun), "{line:?}");
        }
    }

    #[test]
    fn what_was_given_is_known() {
        let root = root();
        let line = words("pods --cluster=beijing -n shop --data-dir /d --server http://s x");
        let place = find(&root, &line).unwrap();
        for (id, said) in [("cluster", "beijing"), ("namespace", "shop"), ("data_dir", "/d"), ("server", "http://s")] {
            assert_eq!(place.said(id).as_deref(), Some(said));
        }
        assert_eq!(place.said("token_file"), None);
    }

    #[test]
    fn bash_pieces_are_put_together() {
        let pieces = |line: &[&str]| joined(line.iter().map(|word| (*word).to_owned()).collect());
        assert_eq!(pieces(&["pods", "--cluster", "=", "be"]), (words("pods --cluster=be"), true));
        assert_eq!(pieces(&["pods", "--cluster", "="]), (words("pods --cluster="), true));
        assert_eq!(pieces(&["pods", "--cluster", "=", "be", "x"]), (words("pods --cluster=be x"), false));
        assert_eq!(pieces(&["pods", "--cluster=be"]), (words("pods --cluster=be"), false));
        assert_eq!(pieces(&["="]), (words("="), false));
    }

    proptest! {
        #[test]
        fn no_line_makes_it_panic(line in proptest::collection::vec("(pods|cluster|get|exec|--cluster|-n|--|=|-|-xé|[a-z=,é-]{0,6})", 0..8)) {
            let root = root();
            let (line, _) = joined(line);
            let _ = find(&root, &line).map(|place| place.said("cluster"));
        }
    }
}
