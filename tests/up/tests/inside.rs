//! What operators look at: the figures of requests, profiles and the log level of `muster up`.
#![allow(clippy::unwrap_used, clippy::expect_used, unused_crate_dependencies)]

use std::process::Command;

use muster_tests::peer::{free_port, peers_folder};
use muster_tests_up::{Up, request, until};

#[test]
fn requests_are_counted_and_administrators_look_inside() {
    // SYM-10, SYM-11
    let (metrics, health) = (free_port(), free_port());
    let up = Up::start(&[
        &format!("--set=managers.*.metricsBindAddress=127.0.0.1:{metrics}"),
        &format!("--set=managers.*.healthBindAddress=127.0.0.1:{health}"),
    ]);
    up.ok("cluster list");
    up.request("GET", "/api/cluster/all", &[], "");
    up.request("GET", "/a/page", &[("Accept", "text/html")], "");
    // What was asked is counted when it was answered, a moment after the answer came.
    for figure in [
        "muster_gateway_requests_total{method=\"GET\",route=\"api\",code=\"200\"} ",
        "muster_gateway_requests_total{method=\"GET\",route=\"api\",code=\"401\"} 1",
        "muster_gateway_requests_total{method=\"GET\",route=\"page\",code=\"200\"} 1",
        "muster_gateway_request_duration_seconds_count{method=\"GET\",route=\"api\"} ",
        "muster_gateway_requests_under_way 0",
        "muster_members{state=\"Running\"} 0",
        "controller_runtime_max_concurrent_reconciles",
        "apiserver_request_total{verb=\"LIST\",group=\"\"",
        "apiserver_storage_objects{resource=\"namespaces\"} ",
        "muster_apiserver_connections_open ",
    ] {
        until(&format!("{figure} is shown"), || {
            let (code, figures) = request(metrics, "GET", "/metrics", &[], "");
            assert_eq!(code, 200, "{figures}");
            figures.contains(figure)
        });
    }

    // On the hub's address with a token, on the API's as whoever kubectl is.
    let level = "/debug/loglevel";
    assert_eq!(request(health, "GET", level, &[], "").0, 401);
    let bearer = format!("Bearer {}", up.ok("token create").trim());
    let headers = [("Authorization", bearer.as_str())];
    assert_eq!(request(health, "GET", level, &headers, ""), (200, "0\n".to_owned()));
    assert_eq!(request(health, "PUT", level, &headers, "4"), (200, "4\n".to_owned()));
    let kubectl = Command::new(peers_folder().unwrap().join("kubectl"))
        .arg("--kubeconfig")
        .arg(up.data().join("admin.kubeconfig"))
        .args(["get", "--raw", level])
        .env("HOME", up.folder())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&kubectl.stdout), "4\n", "{kubectl:?}");
}
