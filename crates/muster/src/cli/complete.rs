//! Completion: the scripts that shells load, and the hidden command they ask at each Tab what could stand at the cursor.
//!
//! Everything the command line knows by itself (commands, flags, words) comes from its definition; names come from the server the line
//! speaks of, within a second. What fails is silent: nobody wants an error in the middle of a line.

mod names;
mod place;

use clap::{Args, Command, CommandFactory, ValueEnum, ValueHint};
use clap_complete::Shell;

use self::{
    names::Names,
    place::{Place, Wanted},
};
use super::{Cli, words::readable};
use crate::{problem::Problem, say};

/// Tells the script to let the shell complete files.
const FILES: u8 = 10;
/// More candidates help nobody.
const MOST: usize = 500;

#[derive(Debug, Args)]
pub struct Complete {
    /// Whose form the answer has
    #[arg(value_enum)]
    form: Form,
    /// The words behind the command's name, up to the one at the cursor
    #[arg(last = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    Bash,
    Zsh,
    Fish,
}

/// The script for a shell's start-up file.
pub fn script(shell: Shell) -> String {
    match shell {
        Shell::Bash => include_str!("complete/muster.bash").to_owned(),
        Shell::Zsh => include_str!("complete/muster.zsh").to_owned(),
        Shell::Fish => include_str!("complete/muster.fish").to_owned(),
        // These know no names.
        other => {
            let mut script = Vec::new();
            clap_complete::generate(other, &mut Cli::command(), "muster", &mut script);
            String::from_utf8_lossy(&script).into_owned()
        }
    }
}

/// Prints what could stand at the cursor, one a line.
pub async fn run(flags: Complete) -> Result<u8, Problem> {
    let mut root = Cli::command();
    root.build();
    let (words, split) = match flags.form {
        Form::Bash => place::joined(flags.words),
        Form::Zsh | Form::Fish => (flags.words, false),
    };
    let Some(place) = place::find(&root, &words) else { return Ok(0) };
    if place.is_file() {
        return Ok(FILES);
    }
    let mut found = place.known();
    if let Some(names) = place.names() {
        found.extend(names::ask(names, &place).await.into_iter().map(Candidate::plain));
    }
    found.retain(|candidate| candidate.value.starts_with(&place.begun));
    found.truncate(MOST);
    say(&found.iter().map(|candidate| candidate.line(flags.form, &place, split)).collect::<String>())?;
    Ok(0)
}

/// One thing that could stand there.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Candidate {
    value: String,
    about: String,
}

impl Candidate {
    fn plain(value: String) -> Candidate {
        Candidate { value, about: String::new() }
    }

    fn of(value: impl Into<String>, about: Option<&clap::builder::StyledStr>) -> Candidate {
        let about = about.map(|about| readable(&about.to_string(), 80)).unwrap_or_default();
        Candidate { value: value.into(), about }
    }

    /// In the shell's form. Where the shell has taken `--flag=` for a word of its own it is not said again.
    fn line(&self, form: Form, place: &Place<'_>, split: bool) -> String {
        let flag = if split { "" } else { place.flag.as_str() };
        let whole = format!("{flag}{}{}", place.list, self.value);
        match form {
            Form::Bash => format!("{whole}\n"),
            Form::Fish => format!("{whole}\t{}\n", self.about),
            Form::Zsh => format!("{}:{}\n", whole.replace(':', "\\:"), self.about),
        }
    }
}

impl Place<'_> {
    /// Whether only a file of this machine can stand there.
    fn is_file(&self) -> bool {
        let arg = match &self.wanted {
            Wanted::Value(arg) => Some(*arg),
            Wanted::Next(arg) if !self.begun.starts_with('-') => *arg,
            Wanted::Next(_) | Wanted::Nothing => None,
        };
        let hints = [ValueHint::AnyPath, ValueHint::FilePath, ValueHint::DirPath];
        arg.is_some_and(|arg| hints.contains(&arg.get_value_hint()))
    }

    /// What the definition of the command line says.
    fn known(&self) -> Vec<Candidate> {
        let values = |arg: &clap::Arg| -> Vec<Candidate> {
            let shown = arg.get_possible_values().into_iter().filter(|value| !value.is_hide_set());
            shown.map(|value| Candidate::of(value.get_name(), value.get_help())).collect()
        };
        match &self.wanted {
            Wanted::Nothing => Vec::new(),
            Wanted::Value(arg) => values(arg),
            Wanted::Next(_) if self.begun.starts_with('-') => self.flags(),
            Wanted::Next(arg) => {
                let mut found: Vec<Candidate> = arg.map(values).unwrap_or_default();
                if self.given.is_empty() || arg.is_none() {
                    found.extend(commands(self.command));
                }
                found
            }
        }
    }

    /// Flags that were not given yet.
    fn flags(&self) -> Vec<Candidate> {
        let shown = self.command.get_arguments().filter(|arg| {
            let again = matches!(arg.get_action(), clap::ArgAction::Append | clap::ArgAction::Count);
            !arg.is_positional() && !arg.is_hide_set() && (again || !self.given.contains_key(arg.get_id().as_str()))
        });
        shown.filter_map(|arg| Some(Candidate::of(format!("--{}", arg.get_long()?), arg.get_help()))).collect()
    }

    /// Whose names could stand there.
    fn names(&self) -> Option<Names> {
        let arg = match &self.wanted {
            Wanted::Value(arg) => *arg,
            Wanted::Next(Some(arg)) if !self.begun.starts_with('-') => arg,
            Wanted::Next(_) | Wanted::Nothing => return None,
        };
        Names::of(&self.path, arg.get_id().as_str())
    }
}

fn commands(command: &Command) -> Vec<Candidate> {
    let shown = command.get_subcommands().filter(|inner| !inner.is_hide_set());
    shown.map(|inner| Candidate::of(inner.get_name(), inner.get_about())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the definition offers, without asking anybody.
    fn offered(line: &[&str]) -> Vec<String> {
        let mut root = Cli::command();
        root.build();
        let words: Vec<String> = line.iter().map(|word| (*word).to_owned()).collect();
        let place = place::find(&root, &words).unwrap();
        let found = place.known().into_iter().filter(|candidate| candidate.value.starts_with(&place.begun));
        found.map(|candidate| candidate.value).collect()
    }

    #[test]
    fn commands_flags_and_words_come_from_the_definition() {
        assert_eq!(offered(&["cl"]), ["cluster"]);
        let inner = offered(&["cluster", ""]);
        assert!(inner.contains(&"import".to_owned()) && inner.contains(&"role".to_owned()), "{inner:?}");
        assert!(offered(&[""]).iter().all(|name| !name.starts_with('_')));
        assert_eq!(offered(&["pods", "--na"]), ["--namespace"]);
        assert_eq!(offered(&["pods", "--namespace", "shop", "--na"]), Vec::<String>::new());
        assert_eq!(offered(&["pods", "-o", "j"]), ["json"]);
        assert_eq!(offered(&["cluster", "import", "x", "--allow", "insecure,s"]), ["system-roots"]);
        assert_eq!(offered(&["completion", "b"]), ["bash"]);
        assert_eq!(offered(&["exec", "web-0", "--", "l"]), Vec::<String>::new());
    }

    #[test]
    fn candidates_have_the_form_of_their_shell() {
        let mut root = Cli::command();
        root.build();
        let words = ["pods".to_owned(), "--cluster=be".to_owned()];
        let place = place::find(&root, &words).unwrap();
        let candidate = Candidate { value: "beijing".into(), about: "a:b".into() };
        assert_eq!(candidate.line(Form::Bash, &place, true), "beijing\n");
        assert_eq!(candidate.line(Form::Bash, &place, false), "--cluster=beijing\n");
        assert_eq!(candidate.line(Form::Fish, &place, false), "--cluster=beijing\ta:b\n");
        assert_eq!(candidate.line(Form::Zsh, &place, false), "--cluster=beijing:a:b\n");
        assert_eq!(Candidate::plain("a:b".into()).line(Form::Zsh, &place, false), "--cluster=a\\:b:\n");
    }

    #[test]
    fn files_are_the_shells_business() {
        let mut root = Cli::command();
        root.build();
        let is_file = |line: &[&str]| {
            let words: Vec<String> = line.iter().map(|word| (*word).to_owned()).collect();
            place::find(&root, &words).unwrap().is_file()
        };
        assert!(is_file(&["pods", "--token-file", ""]) && is_file(&["backup", "verify", "b"]));
        assert!(is_file(&["cluster", "import", "x", "--kubeconfig=/e"]));
        assert!(
            !is_file(&["pods", ""]) && !is_file(&["pods", "--cluster", ""]) && !is_file(&["backup", "verify", "-"])
        );
    }

    #[test]
    fn every_shell_has_a_script() {
        for (shell, word) in
            [(Shell::Bash, "complete -F"), (Shell::Zsh, "compdef"), (Shell::Fish, "complete -c muster")]
        {
            let script = script(shell);
            assert!(script.contains(word) && script.contains("__complete"), "{shell}: {script}");
        }
        assert!(script(Shell::Elvish).contains("secure-port"));
    }
}
