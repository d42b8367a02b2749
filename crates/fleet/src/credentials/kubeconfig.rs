//! Reads kubeconfigs that somebody sent us: every field is known and harmless, or the file is refused by that field's name.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Map, Value};

use super::{
    Allow, Credentials, Identity, Refusals, Refused, Trust, address, authority_of, certificate_of, keep, key_of,
    token_of, trust_without_authority, unreadable,
};

/// A Secret holds 1 MiB; a kubeconfig of one cluster is a hundredth of it.
const LARGEST: usize = 512 << 10;
const MOST_ENTRIES: usize = 100;
/// Nobody mends more at once.
const MOST_REFUSED: usize = 50;
const ONE_CONTEXT: &str = "export one context: kubectl config view --minify --flatten --context NAME";
const FLATTEN: &str = "put the contents into the file: kubectl config view --minify --flatten --raw";
const TOKEN: &str = "import with a service account's token instead: muster cluster role prints the account it needs";

/// Fields of a cluster or a user, and why they are refused. What is not listed anywhere is refused as unknown.
const REFUSED: &[(&str, &str, &str)] = &[
    ("exec", "runs a program on this machine", TOKEN),
    ("auth-provider", "needs a program of this machine to log in", TOKEN),
    ("certificate-authority", "is a file of the machine the kubeconfig came from", FLATTEN),
    ("client-certificate", "is a file of the machine the kubeconfig came from", FLATTEN),
    ("client-key", "is a file of the machine the kubeconfig came from", FLATTEN),
    ("tokenFile", "is a file of the machine the kubeconfig came from", "give the token itself as `token`"),
    ("username", "belongs to basic authentication, which Kubernetes no longer has", TOKEN),
    ("password", "belongs to basic authentication, which Kubernetes no longer has", TOKEN),
    ("as", "acts in another's name", "import the credentials of that account itself"),
    ("as-uid", "acts in another's name", "import the credentials of that account itself"),
    ("as-groups", "acts in another's name", "import the credentials of that account itself"),
    ("as-user-extra", "acts in another's name", "import the credentials of that account itself"),
    ("proxy-url", "sends everything through another machine", "give an address that can be reached without a proxy"),
];

/// Fields of a cluster that are read here.
const OF_CLUSTER: &[&str] = &[
    "server",
    "certificate-authority-data",
    "insecure-skip-tls-verify",
    "tls-server-name",
    "disable-compression",
    "extensions",
];
const OF_USER: &[&str] = &["token", "client-certificate-data", "client-key-data", "extensions"];

/// Reads one context. What is wrong with its cluster and its user is told all at once; without a context there is nothing to look at.
pub(super) fn read(text: &str, context: Option<&str>, allow: Allow) -> Result<Credentials, Refusals> {
    let whole = parse(text)?;
    let Some(whole) = whole.as_object() else {
        return Err(Refused::new("(file)", "is no kubeconfig", ONE_CONTEXT).into());
    };
    match whole.get("kind").and_then(Value::as_str) {
        None | Some("Config") => {}
        Some(_) => return Err(Refused::new("kind", "is not Config", ONE_CONTEXT).into()),
    }
    let contexts = entries(whole, "contexts")?;
    let (at, context) = entry("contexts", "context", &contexts, chosen(whole, &contexts, context)?)?;
    let mut wrong = Vec::new();
    let namespace = keep(text_of(&at, context, "namespace"), &mut wrong).flatten().map(str::to_owned);
    let cluster = keep(named(whole, "clusters", "cluster", &at, context), &mut wrong)
        .and_then(|(at, cluster)| of_cluster(&at, cluster, allow, &mut wrong));
    let identity = keep(named(whole, "users", "user", &at, context), &mut wrong)
        .and_then(|(at, user)| of_user(&at, user, &mut wrong));
    match (cluster, identity, Refusals::of(wrong)) {
        (Some((server, trust, server_name)), Some(identity), None) => {
            Ok(Credentials { server, trust, server_name, identity, namespace })
        }
        (.., refusals) => Err(refusals.unwrap_or_else(|| unreadable().into())),
    }
}

/// The context that is meant: the named one, else the current one, else the only one.
fn chosen<'a>(
    whole: &'a Map<String, Value>,
    contexts: &[&'a Value],
    context: Option<&'a str>,
) -> Result<&'a str, Refused> {
    match (context, whole.get("current-context")) {
        (Some(named), _) => Ok(named),
        (None, Some(Value::String(current))) if !current.is_empty() => Ok(current),
        (None, None | Some(Value::Null | Value::String(_))) => match contexts {
            [only] => Ok(name_of(only)),
            _ => Err(Refused::new("current-context", "names no context", ONE_CONTEXT)),
        },
        (None, Some(_)) => Err(Refused::new("current-context", "is no text", ONE_CONTEXT)),
    }
}

/// The cluster or the user that a context names, and where it stands.
fn named<'a>(
    whole: &'a Map<String, Value>,
    list: &str,
    inner: &str,
    at: &str,
    context: &'a Map<String, Value>,
) -> Result<(String, &'a Map<String, Value>), Refused> {
    let name =
        text_of(at, context, inner)?.ok_or_else(|| Refused::new(format!("{at}.{inner}"), "is missing", ONE_CONTEXT))?;
    entry(list, inner, &entries(whole, list)?, name)
}

/// Where it is, whom to believe there, and under which name.
fn of_cluster(
    at: &str,
    cluster: &Map<String, Value>,
    allow: Allow,
    wrong: &mut Vec<Refused>,
) -> Option<(http::Uri, Trust, Option<String>)> {
    refuse_others(at, cluster, OF_CLUSTER, wrong);
    let field = format!("{at}.server");
    let server = text_of(at, cluster, "server").and_then(|server| {
        let server = server.ok_or_else(|| Refused::new(&field, "is missing", "name the address of the API server"))?;
        address(&field, server, allow)
    });
    let server = keep(server, wrong);
    let trust = trust(at, cluster, server.as_ref(), allow, wrong);
    let server_name = keep(text_of(at, cluster, "tls-server-name"), wrong)?.map(str::to_owned);
    Some((server?, trust?, server_name))
}

/// YAML as a tree. Anchors, depth and size are bounded; an error says where, not what stands there.
fn parse(text: &str) -> Result<Value, Refused> {
    if text.len() > LARGEST {
        let why = format!("has {} KiB; a kubeconfig has at most {}", text.len() >> 10, LARGEST >> 10);
        return Err(Refused::new("(file)", why, ONE_CONTEXT));
    }
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: 24, max_aliases: 0, max_anchors: 0, max_nodes: 40_000, max_documents: 1,
        },
        // `n` is a name, not "no".
        strict_booleans: true,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let place = error.location().map(|at| format!(" at line {}, column {}", at.line(), at.column()));
        let why = format!("is no plain YAML{}", place.unwrap_or_default());
        Refused::new(
            "(file)",
            why,
            "write it without anchors and aliases: kubectl config view --minify --flatten --raw",
        )
    })
}

fn trust(
    at: &str,
    cluster: &Map<String, Value>,
    server: Option<&http::Uri>,
    allow: Allow,
    wrong: &mut Vec<Refused>,
) -> Option<Trust> {
    let insecure_field = || format!("{at}.insecure-skip-tls-verify");
    let insecure = match cluster.get("insecure-skip-tls-verify") {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::Bool(true)) => true,
        Some(_) => {
            wrong.push(Refused::new(insecure_field(), "is neither true nor false", "leave it out"));
            return None;
        }
    };
    let field = format!("{at}.certificate-authority-data");
    let authority = keep(data_of(at, cluster, "certificate-authority-data"), wrong)?;
    let trust = match (insecure, authority, server) {
        (true, ..) if !allow.insecure => Err(Refused::new(
            insecure_field(),
            "believes whoever answers, so that anybody on the way can read and change what is sent",
            "give certificate-authority-data instead, or allow it explicitly",
        )),
        (true, Some(_), _) => {
            Err(Refused::new(insecure_field(), "contradicts certificate-authority-data", "leave one of them out"))
        }
        (true, None, _) => Ok(Trust::Anybody),
        (false, Some(pem), _) => authority_of(&field, &pem).map(Trust::Authority),
        // It is there, as a file, which is refused already; or it is not known yet whether one is needed.
        (false, None, _) if cluster.contains_key("certificate-authority") => return None,
        (false, None, None) => return None,
        (false, None, Some(server)) => trust_without_authority(&field, server, allow),
    };
    keep(trust, wrong)
}

/// Who we are there.
fn of_user(at: &str, user: &Map<String, Value>, wrong: &mut Vec<Refused>) -> Option<Identity> {
    let before = wrong.len();
    refuse_others(at, user, OF_USER, wrong);
    let token = keep(text_of(at, user, "token"), wrong)?;
    let token = keep(token.map(|token| token_of(&format!("{at}.token"), token)).transpose(), wrong);
    let (certificate, key) = (format!("{at}.client-certificate-data"), format!("{at}.client-key-data"));
    let data = |name: &str| data_of(at, user, name);
    let of_certificate =
        data("client-certificate-data").and_then(|pem| pem.map(|pem| certificate_of(&certificate, &pem)).transpose());
    let of_certificate = keep(of_certificate, wrong);
    let of_key = keep(data("client-key-data").and_then(|pem| pem.map(|pem| key_of(&key, &pem)).transpose()), wrong);
    if wrong.len() > before {
        // What is missing may be what is refused: that is enough to mend.
        return None;
    }
    let identity = match (token?, of_certificate?, of_key?) {
        (Some(token), None, None) => Ok(Identity::Token(token)),
        (None, Some(certificate), Some(key)) => Ok(Identity::Certificate(certificate, key)),
        (None, None, None) => Err(Refused::new(at, "holds no credentials", TOKEN)),
        (None, Some(_), None) => Err(Refused::new(key, "is missing", FLATTEN)),
        (None, None, Some(_)) => Err(Refused::new(certificate, "is missing", FLATTEN)),
        (Some(_), ..) => Err(Refused::new(at, "holds a token and a certificate", "leave one of them out")),
    };
    keep(identity, wrong)
}

/// The list `name` of the file.
fn entries<'a>(whole: &'a Map<String, Value>, name: &str) -> Result<Vec<&'a Value>, Refused> {
    match whole.get(name) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(all)) if all.len() <= MOST_ENTRIES => Ok(all.iter().collect()),
        Some(Value::Array(all)) => Err(Refused::new(name, format!("has {} entries", all.len()), ONE_CONTEXT)),
        Some(_) => Err(Refused::new(name, "is no list", ONE_CONTEXT)),
    }
}

fn name_of(entry: &Value) -> &str {
    entry.get("name").and_then(Value::as_str).unwrap_or_default()
}

/// What the entry called `name` holds, and where that stands.
fn entry<'a>(
    list: &str,
    inner: &str,
    all: &[&'a Value],
    name: &str,
) -> Result<(String, &'a Map<String, Value>), Refused> {
    let mut found = all.iter().enumerate().filter(|(_, entry)| name_of(entry) == name);
    let shown: String = name.chars().take(80).flat_map(char::escape_debug).collect();
    let Some((at, entry)) = found.next() else {
        return Err(Refused::new(list, format!("has no entry \"{shown}\""), ONE_CONTEXT));
    };
    if found.next().is_some() {
        return Err(Refused::new(list, format!("has \"{shown}\" twice"), ONE_CONTEXT));
    }
    let path = format!("{list}[{at}].{inner}");
    match entry.get(inner).and_then(Value::as_object) {
        Some(map) => Ok((path, map)),
        None => Err(Refused::new(path, "is missing", ONE_CONTEXT)),
    }
}

/// Refuses every field that is not among `fields`, with the reason if there is a special one.
fn refuse_others(at: &str, map: &Map<String, Value>, fields: &[&str], wrong: &mut Vec<Refused>) {
    for (name, value) in map {
        let empty = value.is_null() || value.as_str() == Some("");
        if fields.contains(&name.as_str()) || empty {
            continue;
        }
        if wrong.len() >= MOST_REFUSED {
            return;
        }
        let shown: String = name.chars().take(80).flat_map(char::escape_debug).collect();
        let field = format!("{at}.{shown}");
        wrong.push(match REFUSED.iter().find(|(refused, ..)| refused == name) {
            Some((_, why, remedy)) => Refused::new(field, *why, *remedy),
            None => Refused::new(field, "is not known here", "leave it out"),
        });
    }
}

fn text_of<'a>(at: &str, map: &'a Map<String, Value>, name: &str) -> Result<Option<&'a str>, Refused> {
    match map.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str()).filter(|text| !text.is_empty())),
        Some(_) => Err(Refused::new(format!("{at}.{name}"), "is no text", "put it between quotes")),
    }
}

/// The bytes of a `…-data` field.
fn data_of(at: &str, map: &Map<String, Value>, name: &str) -> Result<Option<Vec<u8>>, Refused> {
    let Some(text) = text_of(at, map, name)? else { return Ok(None) };
    let compact: String = text.split_whitespace().collect();
    let wrong = |_| Refused::new(format!("{at}.{name}"), "is no base64", FLATTEN);
    BASE64_STANDARD.decode(compact).map(Some).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    fn pair() -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec!["a".to_owned()]).unwrap().self_signed(&key).unwrap();
        (BASE64_STANDARD.encode(certificate.pem()), BASE64_STANDARD.encode(key.serialize_pem()))
    }

    fn file(cluster: &str, user: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: x\ncontexts: [{{name: x, context: {{cluster: c, user: u, namespace: n}}}}]\n\
             clusters: [{{name: c, cluster: {{{cluster}}}}}]\nusers: [{{name: u, user: {{{user}}}}}]\n"
        )
    }

    fn refusal(cluster: &str, user: &str) -> Refused {
        read(&file(cluster, user), None, Allow::default()).unwrap_err().first().clone()
    }

    #[test]
    fn a_flat_kubeconfig_is_read_and_comes_back_the_same() {
        // SC-10
        let (certificate, key) = pair();
        let cluster =
            format!("server: 'https://h:6443/k8s/c-1', certificate-authority-data: {certificate}, tls-server-name: s");
        for user in [format!("client-certificate-data: {certificate}, client-key-data: {key}"), "token: t0".to_owned()]
        {
            let read_in = read(&file(&cluster, &user), None, Allow::default()).unwrap();
            assert_eq!(read_in.server().to_string(), "https://h:6443/k8s/c-1");
            assert_eq!(read_in.namespace.as_deref(), Some("n"));
            let again = read(read_in.to_kubeconfig("m").reveal(), None, Allow::default()).unwrap();
            assert!(again == read_in);
        }
    }

    #[test]
    fn what_would_run_a_program_or_open_a_file_is_refused_by_name() {
        // B-13
        let (ca, key) = pair();
        let good = format!("server: 'https://h', certificate-authority-data: {ca}");
        let cluster = |more: &str| refusal(&format!("server: 'https://h', {more}"), "token: t").field;
        let user = |more: &str| refusal(&good, more).field;
        assert_eq!(user("exec: {command: rm}"), "users[0].user.exec");
        assert_eq!(user("auth-provider: {name: gcp}, token: t"), "users[0].user.auth-provider");
        assert_eq!(user("tokenFile: /etc/shadow"), "users[0].user.tokenFile");
        assert_eq!(user("client-certificate: /x, client-key: /y"), "users[0].user.client-certificate");
        assert_eq!(user(&format!("client-certificate-data: {ca}, client-key: /y")), "users[0].user.client-key");
        assert_eq!(user("username: a, password: b"), "users[0].user.password");
        assert_eq!(user("as: root, token: t"), "users[0].user.as");
        assert_eq!(user("newfangled: 1, token: t"), "users[0].user.newfangled");
        assert_eq!(user(""), "users[0].user");
        assert_eq!(user(&format!("token: t, client-key-data: {key}")), "users[0].user");
        assert_eq!(user(&format!("client-key-data: {key}")), "users[0].user.client-certificate-data");
        assert_eq!(user("token: \"a\\nb\""), "users[0].user.token");
        assert_eq!(user("token: {a: b}"), "users[0].user.token");
        assert_eq!(cluster("certificate-authority: /etc/ca"), "clusters[0].cluster.certificate-authority");
        assert_eq!(cluster("proxy-url: 'ftp://10.0.0.1'"), "clusters[0].cluster.proxy-url");
        assert_eq!(cluster("insecure-skip-tls-verify: true"), "clusters[0].cluster.insecure-skip-tls-verify");
        assert_eq!(cluster("insecure-skip-tls-verify: 'yes'"), "clusters[0].cluster.insecure-skip-tls-verify");
        assert_eq!(cluster("certificate-authority-data: '%%'"), "clusters[0].cluster.certificate-authority-data");
        assert_eq!(cluster("certificate-authority-data: YQ=="), "clusters[0].cluster.certificate-authority-data");
        assert_eq!(cluster("tls-server-name: s"), "clusters[0].cluster.certificate-authority-data");
    }

    #[test]
    fn everything_that_is_refused_is_named_at_once_and_nothing_twice() {
        // B-13
        let fields = |cluster: &str, user: &str| -> Vec<String> {
            let refusals = read(&file(cluster, user), None, Allow::default()).unwrap_err();
            refusals.iter().map(|refused| refused.field.rsplit('.').next().unwrap().to_owned()).collect()
        };
        let (ca, key) = pair();
        assert_eq!(
            fields(
                "server: 'http://h', proxy-url: 'http://p', insecure-skip-tls-verify: true, certificate-authority: /c",
                "exec: {command: x}, auth-provider: {name: gcp}, tokenFile: /t, as: root"
            ),
            [
                "certificate-authority",
                "proxy-url",
                "server",
                "insecure-skip-tls-verify",
                "as",
                "auth-provider",
                "exec",
                "tokenFile"
            ]
        );
        // What is refused is not missing, too.
        assert_eq!(fields("server: 'https://h', certificate-authority: /c", "token: t"), ["certificate-authority"]);
        assert_eq!(
            fields(
                &format!("server: 'https://h', certificate-authority-data: {ca}"),
                &format!("client-certificate: /c, client-key-data: {key}")
            ),
            ["client-certificate"]
        );
        assert_eq!(
            fields("server: 'https://h', certificate-authority-data: '%'", "client-key-data: '%', token: \"a\\nb\""),
            ["certificate-authority-data", "token", "client-key-data"]
        );
        // One of the two that is not there does not hide what is wrong with the other.
        let text = file("server: 'https://h', proxy-url: 'http://p'", "token: t").replace("user: u,", "user: nobody,");
        let refusals = read(&text, None, Allow::default()).unwrap_err();
        assert_eq!(refusals.iter().count(), 3, "{refusals}");
        assert!(refusals.to_string().contains("proxy-url") && refusals.to_string().contains("\"nobody\""));
        let many: String = (0..500).map(|n| format!("f{n}: 1, ")).collect();
        assert!(fields("server: 'https://h'", &format!("{many}token: t")).len() <= MOST_REFUSED + 1);
    }

    #[test]
    fn a_key_of_another_certificate_is_refused_at_once() {
        // B-13
        let ((certificate, _), (_, key)) = (pair(), pair());
        let text = file(
            &format!("server: 'https://h', certificate-authority-data: {certificate}"),
            &format!("client-certificate-data: {certificate}, client-key-data: {key}"),
        );
        let error = Credentials::from_kubeconfig(&text, None, Allow::default()).unwrap_err();
        assert_eq!(error.first().field, "(credentials)");
    }

    #[test]
    fn addresses_are_addresses() {
        // B-13
        for server in
            ["ftp://h", "https://u:p@h", "https://h/?q=1", "h:6443", "http://h:6443", "file:///etc/passwd", ""]
        {
            let field = refusal(&format!("server: '{server}'"), "token: t").field;
            assert_eq!(field, "clusters[0].cluster.server", "{server}");
        }
        let here = read(&file("server: 'http://127.0.0.1:8080'", "token: t"), None, Allow::default());
        assert!(here.unwrap().trust == Trust::Nothing);
    }

    #[test]
    fn what_weakens_the_connection_must_be_allowed_by_its_own_word() {
        // B-13
        let text = file("server: 'https://h', insecure-skip-tls-verify: true", "token: t");
        let insecure = Allow { insecure: true, ..Allow::default() };
        assert!(read(&text, None, insecure).unwrap().trust == Trust::Anybody);
        let text = file("server: 'https://h'", "token: t");
        assert!(read(&text, None, insecure).is_err());
        let system = Allow { system_roots: true, ..Allow::default() };
        assert!(read(&text, None, system).unwrap().trust == Trust::System);
    }

    #[test]
    fn hostile_yaml_is_refused_without_being_repeated() {
        // B-13, B-17
        let deep = format!("a: {}{}", "[".repeat(5000), "]".repeat(5000));
        let alias = "a: &a [canary, canary]\nb: *a\n".to_owned();
        let twice = "users: []\nusers: [canary]\n".to_owned();
        let long = format!("a: \"{}\"", "canary".repeat(200_000));
        let broken = "users: [{name: canary, user: {token: canary\n".to_owned();
        for text in [deep, alias, twice, long, broken, "canary".to_owned(), "- canary".to_owned(), String::new()] {
            let error = read(&text, None, Allow::default()).unwrap_err().to_string();
            assert!(!error.contains("canary"), "{error}");
        }
    }

    #[test]
    fn a_kubeconfig_of_a_thousand_contexts_is_refused_for_its_size_alone() {
        // B-13
        let with = |count: usize| {
            let more: String =
                (1..count).map(|n| format!(", {{name: c{n}, context: {{cluster: c, user: u}}}}")).collect();
            let context = "{name: x, context: {cluster: c, user: u, namespace: n}}";
            file("server: 'http://localhost:1'", "token: t").replace(context, &format!("{context}{more}"))
        };
        assert!(read(&with(MOST_ENTRIES), None, Allow::default()).is_ok(), "all else is right in it");
        for count in [MOST_ENTRIES + 1, 1000] {
            let refusals = read(&with(count), None, Allow::default()).unwrap_err();
            let refused: Vec<_> = refusals.iter().collect();
            assert_eq!((refused.len(), refused[0].field.as_str()), (1, "contexts"), "{refusals}");
            assert_eq!(refused[0].why, format!("has {count} entries"));
        }
    }

    #[test]
    fn the_context_is_the_named_one_or_the_current_one_or_the_only_one() {
        let text = file("server: 'http://localhost:1'", "token: t").replace("current-context: x\n", "");
        assert!(read(&text, None, Allow::default()).is_ok());
        assert!(read(&text, Some("x"), Allow::default()).is_ok());
        let error = read(&text, Some("y"), Allow::default()).unwrap_err().first().clone();
        assert_eq!((error.field.as_str(), error.why.as_str()), ("contexts", "has no entry \"y\""));
        let twice = text.replace("users: [", "users: [{name: u, user: {token: other}}, ");
        assert_eq!(read(&twice, None, Allow::default()).unwrap_err().first().why, "has \"u\" twice");
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "\\PC{0,200}") {
            let _ = read(&text, None, Allow::default());
        }
    }
}
