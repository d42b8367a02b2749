//! The few lines a person needs after `muster up`: where things are, how to get in, what to do next. Programs read the log instead.

use std::time::Duration;

use runtime::config::Config;

use super::{Started, Up, is_json, meta::Meta};
use crate::paths::DataDir;

pub fn say(flags: &Up, config: &Config, dir: &DataDir, meta: &Meta, started: &Started, took: Duration) {
    if is_json(config, flags) {
        // Without the setup link: logs are kept and read by many.
        tracing::info!(console = started.url, api = meta.shown.url, data = %dir.root().display(), "serving");
        return;
    }
    eprint!("{}", text(flags, dir, meta, started, took));
}

fn text(flags: &Up, dir: &DataDir, meta: &Meta, started: &Started, took: Duration) -> String {
    let mut lines = vec![("console", started.url.clone())];
    if let Some(setup) = &started.setup {
        lines.push(("setup", format!("{setup}  (once, within 30 minutes; makes the first administrator)")));
    }
    if flags.demo {
        lines.push(("login", "admin, teleport  (on this machine only; change it in the console)".to_owned()));
        lines.push(("members", "beijing, shanghai, guangzhou  (simulated)".to_owned()));
    }
    if let Some(url) = &meta.shown.url {
        lines.push(("api", url.clone()));
    }
    if let Some(plain) = &meta.shown.plain {
        lines.push(("plain", format!("{plain}  (this machine only)")));
    }
    if let Some(kubeconfig) = &meta.shown.kubeconfig {
        lines.push(("kubeconfig", kubeconfig.display().to_string()));
    }
    lines.push(("data", dir.root().display().to_string()));
    let here = match DataDir::of_user(None).is_ok_and(|usual| usual.root() == dir.root()) {
        true => String::new(),
        false => format!(" --data-dir {}", dir.root().display()),
    };
    lines.push(("next", format!("muster cluster list{here}")));
    if flags.demo {
        lines.push(("", format!("muster pods web --cluster all{here}")));
    }
    lines.push(("", format!("muster cluster import NAME --kubeconfig FILE{here}")));
    if let Some(kubeconfig) = &meta.shown.kubeconfig {
        lines.push(("", format!("kubectl --kubeconfig {} get namespaces", kubeconfig.display())));
    }
    let head = format!("muster {}, ready in {:.1} s\n", env!("CARGO_PKG_VERSION"), took.as_secs_f64());
    lines.iter().fold(head, |text, (word, line)| format!("{text}  {word:<11} {line}\n"))
}
