//! What is made, without compiling it; `tests/generator.rs` compiles and runs it.

use super::*;

fn flags(dir: PathBuf, runtime: Option<&str>, phases: bool) -> New {
    New::Reconciler(Reconciler {
        name: "disk-check".to_owned(),
        kind: None,
        group: "demo.example.org".to_owned(),
        version: "v1".to_owned(),
        phases,
        runtime: runtime.map(PathBuf::from),
        dir: Some(dir),
    })
}

const LIST: &str = "//! Examples.\n\npub mod at;\npub mod redismigration;\n\nuse runtime::Registry;\n\n/// Adds all.\n\
                    pub fn register(registry: &mut Registry) {\n    at::register(registry);\n}\n";

#[test]
fn a_reconciler_of_the_tree_is_one_folder_one_line_and_a_sample() {
    // KC-11
    let root = tempfile::tempdir().unwrap();
    let reconcilers = root.path().join("crates/reconcilers/src");
    fs::create_dir_all(&reconcilers).unwrap();
    fs::write(reconcilers.join("lib.rs"), LIST).unwrap();
    run(flags(reconcilers.clone(), None, true)).unwrap();
    let list = fs::read_to_string(reconcilers.join("lib.rs")).unwrap();
    assert!(list.contains("pub mod at;\npub mod disk_check;\npub mod redismigration;\n"), "{list}");
    assert!(list.contains("{\n    disk_check::register(registry);\n    at::register(registry);\n}"), "{list}");
    let text = fs::read_to_string(reconcilers.join("disk_check/mod.rs")).unwrap();
    assert!(
        text.contains("\"disk-check\"") && text.contains("Machine::builder(\"DiskCheck\")") && !text.contains("__"),
        "{text}"
    );
    assert!(
        fs::read_to_string(root.path().join("deploy/samples/disk-check.yaml")).unwrap().contains("kind: DiskCheck")
    );
    // A second time nothing is touched.
    let error = run(flags(reconcilers.clone(), None, false)).unwrap_err().to_string();
    assert!(error.contains("is there already"), "{error}");
    assert_eq!(fs::read_to_string(reconcilers.join("lib.rs")).unwrap(), list);
}

#[test]
fn elsewhere_it_is_a_crate_with_our_versions() {
    // KC-11
    let folder = tempfile::tempdir().unwrap();
    let error = run(flags(folder.path().to_owned(), None, false)).unwrap_err().to_string();
    assert!(error.contains("not in the source tree") && error.contains("--runtime"), "{error}");
    let error = run(flags(folder.path().to_owned(), Some("."), false)).unwrap_err().to_string();
    assert!(error.contains("muster-runtime"), "{error}");
    let runtime = concat!(env!("CARGO_MANIFEST_DIR"), "/../runtime");
    run(flags(folder.path().to_owned(), Some(runtime), false)).unwrap();
    let manifest = fs::read_to_string(folder.path().join("disk-check/Cargo.toml")).unwrap();
    assert!(manifest.contains("\nkube = { version = ") && !manifest.contains("__"), "{manifest}");
    let config = fs::read_to_string(folder.path().join("disk-check/config.yaml")).unwrap();
    let read = runtime::config::Config::read("config.yaml", folder.path(), &config, Default::default()).unwrap();
    assert!(read.managers[0].reconcilers.contains_key("disk-check"));
    assert!(run(flags(folder.path().to_owned(), Some(runtime), false)).is_err());
}

#[test]
fn the_list_of_the_tree_takes_new_reconcilers() {
    let list = include_str!("../../../reconcilers/src/lib.rs");
    let with = place::with_registration(list, "zebra").unwrap();
    assert!(with.contains("\npub mod zebra;\n") && with.contains("{\n    zebra::register(registry);\n"), "{with}");
    assert_eq!(place::with_registration("nothing", "zebra"), None);
}
