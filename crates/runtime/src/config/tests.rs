//! Files as people write them, right and wrong.

use proptest::prelude::*;

use super::*;

const SAMPLE: &str = include_str!("../../../../deploy/config/kubecontroller.yaml");

fn overrides(flags: &[(&str, &str)], environment: &[(&str, &str)]) -> Overrides {
    let owned = |(a, b): &(&str, &str)| ((*a).to_owned(), (*b).to_owned());
    Overrides { flags: flags.iter().map(owned).collect(), environment: environment.iter().map(owned).collect() }
}

fn read(text: &str) -> Result<Config, Vec<String>> {
    read_with(text, Overrides::default())
}

fn read_with(text: &str, overrides: Overrides) -> Result<Config, Vec<String>> {
    Config::read("hub.yaml", Path::new("/etc/muster"), text, overrides).map_err(|error| error.problems)
}

#[test]
fn nothing_said_means_the_defaults_everybody_knows() {
    // KC-2 KC-5
    let config = read("").unwrap();
    let [manager] = config.managers.as_slice() else { panic!("{config:?}") };
    assert_eq!(manager.name, "default");
    assert_eq!(manager.metrics, Some("127.0.0.1:18001".parse().unwrap()));
    assert_eq!(manager.health, Some("127.0.0.1:18002".parse().unwrap()));
    assert_eq!(manager.api, ApiSource::Found { context: None });
    let election = manager.election.as_ref().unwrap();
    assert_eq!((election.namespace.as_str(), election.name.as_str()), ("default", "muster-default"));
    assert_eq!((election.lease.as_secs(), election.renew_deadline.as_secs(), election.retry.as_secs()), (12, 8, 1));
    assert!(manager.controllers.allows("anything") && !manager.profiling && manager.tls.is_none());
    assert!(config.api_ext.is_none() && config.tracing.endpoint.is_none() && config.logging.verbosity == 0);
    assert_eq!(config.gateway.requests_per_second, 100);
}

#[test]
fn how_fast_a_caller_may_ask_is_a_number_within_reason() {
    assert_eq!(read("gateway: {requestsPerSecond: 5000}").unwrap().gateway.requests_per_second, 5000);
    for wrong in ["0", "1000001", "fast", "-1"] {
        let problems = read(&format!("gateway: {{requestsPerSecond: {wrong}}}")).unwrap_err();
        assert!(problems[0].contains("gateway.requestsPerSecond"), "{problems:?}");
    }
}

#[test]
fn the_sample_says_every_key_and_is_right() {
    // KC-5
    let config = read(SAMPLE).unwrap();
    let manager = &config.managers[0];
    let at = &manager.reconcilers["at"];
    assert_eq!(at.options["runner"], "process");
    assert!(config.api_ext.is_some());
    // Every commented key is right, too: the sample is the reference people copy from.
    let uncommented: String = SAMPLE
        .lines()
        .map(|line| match line.trim_start().strip_prefix("#: ") {
            Some(rest) => format!("{}{rest}\n", &line[..line.len() - line.trim_start().len()]),
            None => format!("{line}\n"),
        })
        .collect();
    let config = read(&uncommented).unwrap_or_else(|problems| panic!("{}", problems.join("\n")));
    assert!(config.managers[0].tls.is_some() && config.tracing.endpoint.is_some());
}

#[test]
fn the_fleet_is_followed_when_the_section_is_there_unless_it_says_no() {
    // SYM-9
    let fleet = |text: &str| read(text).unwrap().fleet;
    assert_eq!(fleet("").enabled, None);
    assert_eq!((fleet("").namespace.as_deref(), fleet("").probe_period.as_secs()), (Some("muster-system"), 5));
    let said = fleet("fleet: {namespace: '*', calls: 4, cacheMebibytes: 2, callTimeout: 3s}");
    assert_eq!((said.enabled, said.namespace, said.calls, said.cache), (Some(true), None, 4, 2 << 20));
    assert_eq!(said.call_timeout.as_secs(), 3);
    assert_eq!(fleet("fleet: {enabled: false}").enabled, Some(false));
    let by_variable = read_with("", overrides(&[], &[("MUSTER_FLEET_ENABLED", "true")])).unwrap();
    assert_eq!(by_variable.fleet.enabled, Some(true));
    assert_eq!(read("fleet: {namespaces: a}").unwrap_err().len(), 1);
    let api = fleet("managers: {a: {api: {server: 'http://127.0.0.1:1'}}}\nfleet: {}").api;
    assert_eq!(api, ApiSource::Server { url: "http://127.0.0.1:1".to_owned(), ca_file: None, token_file: None });
}

#[test]
fn every_problem_is_reported_with_its_place() {
    // KC-2
    let problems = read(
        "logging:\n  verbosity: 11\nmanager:\n  default: {}\nmanagers:\n  default:\n    metricsBindAdress: 1\n    \
         concurrency: none\n    tls:\n      certFile: a.pem\n    leaderElection: yes please\n    api:\n      \
         kubeconfig: a\n      server: http://b\n    reconcilers:\n      at:\n        filter:\n          label: x\n",
    )
    .unwrap_err();
    let expected = [
        "hub.yaml:2: logging.verbosity: it must be a number from 0 to 10",
        "hub.yaml:3: manager: unknown key; did you mean managers?",
        "hub.yaml:7: managers.default.metricsBindAdress: unknown key; did you mean metricsBindAddress?",
        "hub.yaml:8: managers.default.concurrency: it must be a number from 1 to 10000",
        "hub.yaml: managers.default.tls: certFile and keyFile belong together",
        "hub.yaml:11: managers.default.leaderElection: it must be a section with keys, not a single value",
        "hub.yaml: managers.default.api: either kubeconfig or server, not both",
        "hub.yaml:18: managers.default.reconcilers.at.filter.label: unknown key; did you mean labels?",
    ];
    for line in expected {
        assert!(problems.iter().any(|problem| problem == line), "no {line:?} in {problems:#?}");
    }
    assert_eq!(problems.len(), expected.len(), "{problems:#?}");
}

#[test]
fn a_flag_comes_before_the_environment_and_that_before_the_file() {
    // KC-5
    let file = "managers:\n  a:\n    concurrency: 2\n    controllers: [at]\n  b:\n    concurrency: 3\n    metricsBindAddress: 0\n    healthBindAddress: 0\n";
    let env = [
        ("MUSTER_MANAGERS_A_CONCURRENCY", "5"),
        ("MUSTER_LOGGING_VERBOSITY", "4"),
        ("MUSTER_LOG", "debug"),
        ("HOME", "/"),
    ];
    let from_env = read_with(file, overrides(&[], &env)).unwrap();
    let figures = |config: &Config| config.managers.iter().map(|manager| manager.concurrency).collect::<Vec<_>>();
    assert_eq!((figures(&from_env), from_env.logging.verbosity), (vec![Some(5), Some(3)], 4));
    let flags = [("managers.*.concurrency", "6"), ("managers.a.concurrency", "7"), ("managers.a.controllers", "*,-at")];
    let from_flag = read_with(file, overrides(&flags, &env)).unwrap();
    assert_eq!(figures(&from_flag), [Some(7), Some(6)]);
    assert!(!from_flag.managers[0].controllers.allows("at") && from_flag.managers[0].controllers.allows("other"));
}

#[test]
fn flags_reach_reconcilers_and_their_own_options() {
    let file = "managers:\n  default:\n    reconcilers:\n      at: {options: {image: one, deep: {kept: 1}}}\n";
    let flags = [
        ("managers.*.reconcilers.at.options.image", "two:1"),
        ("managers.default.reconcilers.at.options.deep.made", "true"),
        ("managers.default.reconcilers.other.concurrency", "3"),
    ];
    let config = read_with(file, overrides(&flags, &[])).unwrap();
    let reconcilers = &config.managers[0].reconcilers;
    let options = serde_json::json!({"image": "two:1", "deep": {"kept": 1, "made": true}});
    assert_eq!((&reconcilers["at"].options, reconcilers["other"].concurrency), (&options, Some(3)));
}

#[test]
fn overrides_that_mean_nothing_are_problems_too() {
    let flags = [("managers.default.concurency", "1")];
    let env = [("MUSTER_MANAGERS_DEFAULT_HEALTH_BIND_ADRESS", "1"), ("MUSTER_LOGGING_VERBOSITY", "loud")];
    let problems = read_with("", overrides(&flags, &env)).unwrap_err();
    assert_eq!(
        problems,
        [
            "environment variable MUSTER_LOGGING_VERBOSITY: it must be a number from 0 to 10",
            "flag --set managers.default.concurency: unknown key; did you mean managers.default.concurrency?",
            "environment variable MUSTER_MANAGERS_DEFAULT_HEALTH_BIND_ADRESS: unknown key; did you mean \
             MUSTER_MANAGERS_DEFAULT_HEALTH_BIND_ADDRESS?",
        ]
    );
}

#[test]
fn paths_are_relative_to_the_file_that_says_them() {
    let file = "managers:\n  default:\n    api: {kubeconfig: admin.kubeconfig}\n";
    let kubeconfig = |config: Config| match &config.managers[0].api {
        ApiSource::Kubeconfig { file, .. } => file.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(kubeconfig(read(file).unwrap()), Path::new("/etc/muster/admin.kubeconfig"));
    let flag = overrides(&[("managers.*.api.kubeconfig", "here")], &[]);
    assert_eq!(kubeconfig(read_with(file, flag).unwrap()), Path::new("here"));
}

#[test]
fn two_managers_cannot_share_an_address() {
    let problems = read("managers:\n  a: {}\n  b: {}\napiExt:\n  bindAddress: 18002\n").unwrap_err();
    assert_eq!(problems.len(), 3, "{problems:?}");
    assert_eq!(problems[0], "hub.yaml: managers.a and managers.b both want the address 127.0.0.1:18001");
    let one = read("managers:\n  a:\n    metricsBindAddress: 18009\n    healthBindAddress: 18009\n").unwrap();
    assert_eq!(one.managers[0].metrics, one.managers[0].health);
}

#[test]
fn what_is_no_yaml_is_said_once_with_the_file() {
    for wrong in ["managers: [", "- a\n- b\n", "text"] {
        let problems = read(wrong).unwrap_err();
        assert!(problems.len() == 1 && problems[0].starts_with("hub.yaml:"), "{problems:?}");
    }
    let missing = Config::load(Some(Path::new("/nowhere/hub.yaml")), Overrides::default()).unwrap_err();
    assert!(missing.to_string().contains("/nowhere/hub.yaml"), "{missing}");
}

proptest! {
    #[test]
    fn any_text_is_a_configuration_or_a_list_of_problems(text in "(managers|logging|api|[a-z: \\[\\]{}&*!#-]|\n|  ){0,40}") {
        if let Err(problems) = read(&text) {
            prop_assert!(!problems.is_empty());
        }
    }
}
