//! Where things lie in the data directory, and where that is when nobody says.

use std::{
    env, fs,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use crate::problem::{Kind, Problem};

#[derive(Debug, Clone)]
pub struct DataDir(PathBuf);

impl DataDir {
    /// The one given, else the system's for root, else the user's own.
    pub fn choose(given: Option<PathBuf>) -> Result<DataDir, Problem> {
        let var = |name| env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let root = rustix::process::geteuid().is_root();
        DataDir::from(given, root, var("XDG_DATA_HOME"), var("HOME"))
    }

    fn from(
        given: Option<PathBuf>,
        root: bool,
        data_home: Option<PathBuf>,
        home: Option<PathBuf>,
    ) -> Result<DataDir, Problem> {
        if let Some(given) = given {
            return Ok(DataDir(given));
        }
        if root {
            return Ok(DataDir("/var/lib/muster".into()));
        }
        // The XDG rules: a relative path there is to be ignored.
        let base = data_home.filter(|p| p.is_absolute()).or_else(|| home.map(|home| home.join(".local/share")));
        base.map(|base| DataDir(base.join("muster"))).ok_or_else(|| {
            Problem::new(Kind::Usage, "no data directory", "neither XDG_DATA_HOME nor HOME is set")
                .next("name one with --data-dir")
        })
    }

    /// The one given, else `.muster` of the user: what `muster up` and the commands that ask it use.
    pub fn of_user(given: Option<PathBuf>) -> Result<DataDir, Problem> {
        let home = env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
        given.or_else(|| home.map(|home| home.join(".muster"))).map(DataDir).ok_or_else(|| {
            Problem::new(Kind::Usage, "no data directory", "HOME is not set").next("name one with --data-dir")
        })
    }

    /// Makes it, private, when it is not there.
    pub fn create(&self) -> Result<(), Problem> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.0).map_err(|e| {
            Problem::new(Kind::Usage, format!("cannot make the data directory {}", self.0.display()), e)
                .next("choose another with --data-dir")
        })
    }

    pub fn root(&self) -> &Path {
        &self.0
    }
    pub fn store(&self) -> PathBuf {
        self.0.join("store")
    }
    pub fn pki(&self) -> PathBuf {
        self.0.join("pki")
    }
    pub fn kubeconfig(&self) -> PathBuf {
        self.0.join("admin.kubeconfig")
    }
    pub fn keys(&self) -> PathBuf {
        self.0.join("encryption.key")
    }
    pub fn signing_key(&self) -> PathBuf {
        self.0.join("service-account.key")
    }
    pub fn audit_log(&self) -> PathBuf {
        self.0.join("audit/audit.log")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_directory_is_found() {
        let some = |p: &str| Some(PathBuf::from(p));
        let chosen = |given, root, xdg, home| DataDir::from(given, root, xdg, home).map(|d| d.0).ok();
        assert_eq!(chosen(some("d"), true, some("/x"), some("/h")), some("d"));
        assert_eq!(chosen(None, true, some("/x"), some("/h")), some("/var/lib/muster"));
        assert_eq!(chosen(None, false, some("/x"), some("/h")), some("/x/muster"));
        assert_eq!(chosen(None, false, some("relative"), some("/h")), some("/h/.local/share/muster"));
        assert_eq!(chosen(None, false, None, some("/h")), some("/h/.local/share/muster"));
        assert_eq!(chosen(None, false, None, None), None);
    }
}
