//! Command lines that people type, right and wrong.

use clap::CommandFactory;

use super::*;

fn parse(line: &str) -> Result<Apiserver, clap::Error> {
    match Cli::try_parse_from(line.split_whitespace())?.command {
        Command::Apiserver(flags) => Ok(*flags),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_definition_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn the_seeds_command_lines_parse() {
    // KC-9
    let file = parse(
        "muster apiserver --backend=file --etcd-servers=http://etcd.gmem.cc:2379 --file-rootpath=/tmp/teleport \
         --token-auth-file=/project/config/token.csv --unrestricted-update=true -v=10 --kubectl-disabled=false \
         --kubectl-ephemeral-token=false --authn-allow-localhost=true",
    )
    .unwrap();
    assert_eq!(file.backend, Backend::File);
    assert_eq!(file.data.data_dir, Some("/tmp/teleport".into()));
    assert_eq!(file.access.token_auth_file, Some("/project/config/token.csv".into()));
    assert!(file.unrestricted_update && file.access.authn_allow_localhost);
    assert!(!file.access.kubectl_disabled && !file.access.kubectl_ephemeral_token);
    assert_eq!(file.logs.verbosity, 10);

    let etcd = parse(
        "muster apiserver --backend=etcd --etcd-servers=http://127.0.0.1:2379  --request-timeout=60m \
         --token-auth-file=config/token.csv --unrestricted-update=true -v=10 --kubectl-disabled=false \
         --kubectl-ephemeral-token=false --authn-allow-localhost=true",
    )
    .unwrap();
    assert_eq!(etcd.backend, Backend::Etcd);
    assert_eq!(etcd.etcd.etcd_servers, ["http://127.0.0.1:2379"]);
    assert_eq!(etcd.limits.request_timeout, Duration::from_secs(3600));
}

#[test]
fn flags_are_written_as_in_go() {
    let on = parse("muster apiserver --unrestricted-update --kubectl-disabled -v 4").unwrap();
    assert!(on.unrestricted_update && on.access.kubectl_disabled && on.logs.verbosity == 4);
    for (line, disabled) in [
        ("muster apiserver --kubectl-disabled=T", true),
        ("muster apiserver --kubectl-disabled=1", true),
        ("muster apiserver --kubectl-disabled=0", false),
        ("muster apiserver --v=2", false),
        ("muster apiserver -v2", false),
        ("muster apiserver", false),
    ] {
        assert_eq!(parse(line).unwrap().access.kubectl_disabled, disabled, "{line}");
    }
    let all =
        parse("muster apiserver --backend embedded --etcd-servers a,b --request-timeout 1m30s --history=1h").unwrap();
    assert_eq!((all.backend, all.etcd.etcd_servers.len()), (Backend::File, 2));
    assert_eq!((all.limits.request_timeout.as_secs(), all.history.as_secs()), (90, 3600));
}

#[test]
fn defaults_are_safe() {
    let flags = parse("muster apiserver").unwrap();
    assert!(flags.listen.bind_address.is_loopback());
    assert_eq!((flags.listen.secure_port, flags.listen.insecure_port), (6443, 6080));
    assert!(!flags.access.authn_allow_localhost && !flags.unrestricted_update);
    let limits = &flags.limits;
    assert_eq!((limits.max_requests_inflight, limits.max_mutating_requests_inflight), (400, 200));
    assert_eq!(limits.max_watches_per_user, 10_000);
    assert_eq!(
        (flags.logs.audit_log_path, flags.logs.audit_log_maxsize, flags.logs.audit_log_maxbackup),
        (None, 100, 5)
    );
}

#[test]
fn wrong_flags_are_refused() {
    for line in [
        "muster",
        "muster apiserver extra",
        "muster apiserver --backend=mysql",
        "muster apiserver --request-timeout=60",
        "muster apiserver --kubectl-disabled=maybe",
        "muster apiserver --secure-port=70000",
        "muster apiserver --bind-address=example.org",
        "muster apiserver --tls-cert-file=a",
        "muster apiserver --etcd-user=a",
        "muster apiserver --audit-log-maxsize=0",
        "muster apiserver --no-such-flag",
        "muster backup create",
        "muster completion tcsh",
        "muster apiserver --controllers=everything",
        "muster token create --ttl=forever",
    ] {
        assert!(Cli::try_parse_from(line.split_whitespace()).is_err(), "{line}");
    }
}

#[test]
fn help_fits_100_columns_and_every_flag_has_a_line() {
    fn check(command: &clap::Command, path: &str) {
        let help = command.clone().term_width(100).render_long_help().to_string();
        for line in help.lines() {
            assert!(line.chars().count() <= 100, "{path}: {line}");
        }
        for argument in command.get_arguments() {
            let named = argument.get_help().is_some() || argument.get_id() == "log_format" || argument.is_positional();
            assert!(named || argument.get_id() == "output", "{path}: {} has no help", argument.get_id());
        }
        for inner in command.get_subcommands() {
            check(inner, &format!("{path} {}", inner.get_name()));
        }
    }
    let mut command = Cli::command();
    command.build();
    check(&command, "muster");
}

#[test]
fn the_fleets_command_lines_parse() {
    // SYM-13
    for line in [
        "muster up --demo",
        "muster up --kubeconfig k --bind 0.0.0.0:8088 --host muster.example.org --config hub.yaml -v 2",
        "muster up --public-url https://muster.example.com:8443",
        "muster up --data-dir d --secure-port 0 -- --backend=etcd --etcd-servers=http://127.0.0.1:2379",
        "muster cluster list -o wide --sort -pods --limit 5",
        "muster cluster get prod -o yaml",
        "muster cluster import prod --kubeconfig - --context a --dry-run --label zone=a --label region=b",
        "muster cluster import prod --server-url https://h:6443 --ca ca.crt --member-token-file t --wait --allow plain-http",
        "muster cluster import prod --server-url https://h:6443 --ca ca.crt --service-account-token t",
        "muster cluster role --read-only --namespace ops",
        "muster cluster kubeconfig prod -f prod.kubeconfig --force",
        "muster cluster delete prod --yes",
        "muster pods web --cluster all -n shop --group blue -l version=1 -o json",
        "muster logs web -f --tail 10 --since 10m -c web --cluster beijing",
        "muster logs web-0 -p --timestamps",
        "muster exec web-0 -n shop -- ls -l /",
        "muster terminal web-0 --command bash",
        "muster events web --warnings",
        "muster endpoints web",
        "muster releases -o name",
        "muster restart web --group canary -n shop",
    ] {
        Cli::try_parse_from(line.split_whitespace()).unwrap_or_else(|why| panic!("{line}: {why}"));
    }
    for line in [
        "muster cluster import prod",
        "muster cluster import prod --server-url https://h",
        "muster cluster import prod --kubeconfig a --server-url https://h --member-token-file t",
        "muster cluster import prod --kubeconfig a --allow everything",
        "muster cluster import prod --kubeconfig a --label zone",
        "muster cluster import prod --server-url https://h --token secret",
        "muster exec web-0",
        "muster logs",
        "muster pods --limit 0",
        "muster up --kubeconfig k -- --history=1h",
        "muster up --bind here",
        "muster up --public-url http://muster.example.com",
        "muster up --public-url https://muster.example.com/console",
    ] {
        assert!(Cli::try_parse_from(line.split_whitespace()).is_err(), "{line}");
    }
}

#[test]
fn the_version_prints() {
    let json: serde_json::Value = serde_json::from_str(&version(Output::Json)).unwrap();
    assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
    assert!(version(Output::Text).starts_with("muster "));
}
