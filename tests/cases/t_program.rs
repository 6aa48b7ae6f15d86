//! Trouble around the program: kubeconfigs, answers that are none, the Lease, the Pushgateway, terminals, and YAML as people
//! write it. With real sockets and processes.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::{
    program::{Ended, Kubeconfig, ended},
    server::{Reply, Server},
};

/// `run --dry-run` by a kubeconfig with this server.
async fn with_server(server: &str, more: &Value) -> Ended {
    let cluster = crate::fleet::merged(json!({"server": server}), more);
    ended(Kubeconfig::new(cluster, json!({"token": "t"})).run(&["--dry-run"])).await
}

/// T16: kubectl takes `server: 127.0.0.1:8080`. The client library joins paths to it and panics.
#[tokio::test]
async fn t16_a_server_without_a_scheme_is_completed_as_kubectl_does() {
    let server = Server::start(|_| None).await;
    let bare = with_server(&format!("127.0.0.1:{}", server.port), &json!({})).await;
    assert_eq!(bare.code, Some(0), "{}", bare.log);
    // Anything of TLS beside it means https; nobody speaks that here.
    let tls = with_server(&format!("127.0.0.1:{}", server.port), &json!({"insecure-skip-tls-verify": true})).await;
    assert_eq!(tls.code, Some(3), "{}", tls.log);
    assert!(tls.log.contains(&format!("server=https://127.0.0.1:{}/", server.port)), "{}", tls.log);
    for odd in ["ftp://127.0.0.1", "https://", "unix:///var/run/api.sock", "/api", "", "127.0.0.1:80:80"] {
        let ended = with_server(odd, &json!({})).await;
        assert_eq!(ended.code, Some(3), "{odd}: {}", ended.log);
        assert!(!ended.log.contains("panicked") && ended.log.contains("no connection: "), "{odd}: {}", ended.log);
    }
    let ftp = with_server("ftp://127.0.0.1", &json!({})).await;
    assert!(
        ftp.log.contains(r#"the cluster's server "ftp://127.0.0.1/" can't be used: it has to begin with https:// or http://"#),
        "{}",
        ftp.log
    );
}

/// T17: kubeconfigs as tools write them: a byte order mark, carriage returns, UTF-16, `env: null` and `args: []` of a plugin, a
/// token that ends with a newline, a user that is `null`.
#[tokio::test]
async fn t17_kubeconfigs_of_other_tools_are_read() {
    let server = Server::start(|_| None).await;
    let answer = json!({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "good\n"}});
    let plugin = json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/echo", "args": [answer.to_string()],
        "env": null, "interactiveMode": "Never", "provideClusterInfo": false}});
    let cluster = json!({"server": format!("http://127.0.0.1:{}", server.port)});
    for user in [plugin, Value::Null] {
        let kubeconfig = Kubeconfig::new(cluster.clone(), user);
        let text = std::fs::read_to_string(kubeconfig.path()).unwrap();
        let carriage = serde_yaml_ng::to_string(&serde_json::from_str::<Value>(&text).unwrap()).unwrap().replace('\n', "\r\n");
        let utf16: Vec<u8> = "\u{feff}".encode_utf16().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect();
        for bytes in [text.clone().into_bytes(), carriage.into_bytes(), format!("\u{feff}{text}").into_bytes(), utf16] {
            std::fs::write(kubeconfig.path(), bytes).unwrap();
            let ended = ended(kubeconfig.run(&["--dry-run"])).await;
            assert_eq!(ended.code, Some(0), "{}", ended.log);
        }
    }
    assert!(server.requests().iter().any(|request| request.authorization.as_deref() == Some("Bearer good")));

    // A file that was written on Windows; a token with a line break in the middle is no token.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "of-a-file\r\n").unwrap();
    let by_file = ended(Kubeconfig::new(cluster.clone(), json!({"tokenFile": file})).run(&["--dry-run"])).await;
    assert_eq!(by_file.code, Some(0), "{}", by_file.log);
    assert!(server.requests().iter().any(|request| request.authorization.as_deref() == Some("Bearer of-a-file")));
    for (user, arguments) in [(json!({"token": "a\nb"}), vec![]), (json!({"token": "a"}), vec!["--as", "a\nb"])] {
        let broken = ended(Kubeconfig::new(cluster.clone(), user).run(&[&["--dry-run"], arguments.as_slice()].concat())).await;
        assert_eq!(broken.code, Some(3), "{}", broken.log);
        assert!(broken.log.contains("can't be sent: it holds a line break"), "{}", broken.log);
    }
}

/// T18: a login page, or a proxy's `{}`, with 200 in place of a list. Taken for an empty list of NodePools, every placeholder
/// and every mark would look like a leftover.
#[tokio::test]
async fn t18_an_answer_that_is_no_list_is_never_an_empty_one() {
    // `null` stands for the page.
    let reply = |body: &Value| match body {
        Value::Null => Reply::Text(200, "content-type: text/html".into(), "<html>Sign in</html>"),
        body => Reply::Json(200, body.clone()),
    };
    let bodies = [json!({}), json!({"kind": "Status", "status": "Success", "metadata": {}}), Value::Null];
    for body in bodies {
        for plural in ["nodepools", "nodeclaims", "rotationpolicies"] {
            let answered = body.clone();
            let is_load = move |path: &str| path.contains(plural) && path.contains("limit=500");
            let server = Server::start(move |request| is_load(&request.path).then(|| reply(&answered))).await;
            let ended = ended(Kubeconfig::plain(server.port).run(&[])).await;
            assert_eq!(ended.code, Some(1), "{body}, {plural}: {}", ended.log);
            assert!(ended.log.contains("the cluster can't be read"), "{body}, {plural}: {}", ended.log);
            let writes = server.requests().into_iter().filter(|request| request.method != "GET" && !request.path.contains("/leases"));
            assert_eq!(writes.count(), 0, "{body}, {plural}");
        }
    }
    // `items: null` is what a Go server says of none.
    let null = Server::start(|request| {
        (request.method == "GET" && request.path.contains("node")).then(|| Reply::Json(200, json!({"metadata": {}, "items": null})))
    })
    .await;
    let none = ended(Kubeconfig::plain(null.port).run(&[])).await;
    assert_eq!(none.code, Some(0), "{}", none.log);
    let everywhere = Server::start(move |_| Some(reply(&Value::Null))).await;
    let all = ended(Kubeconfig::plain(everywhere.port).run(&[])).await;
    assert_ne!(all.code, Some(0), "{}", all.log);
}

/// T19: a Pushgateway behind a proxy that sends to its login page: the PUT becomes a GET that answers well, and nothing was
/// stored. And one that refuses the metrics as inconsistent (another release's help text): told with its words.
#[tokio::test]
async fn t19_a_push_that_is_redirected_to_a_login_page_is_no_push() {
    let cluster = Server::start(|_| None).await;
    let login = Server::start(|request| {
        Some(match request.path.as_str() {
            "/login" => Reply::Text(200, "content-type: text/html".into(), "<html>Sign in</html>"),
            _ => Reply::Text(302, "location: /login".into(), ""),
        })
    })
    .await;
    let push = async |port: u16| ended(Kubeconfig::plain(cluster.port).run(&["--pushgateway", &format!("http://127.0.0.1:{port}")])).await;
    let lost = push(login.port).await;
    assert_eq!(lost.code, Some(0), "{}", lost.log);
    assert!(lost.log.contains("the Pushgateway answers 302"), "{}", lost.log);
    assert_eq!(login.requests().len(), 1, "the login page isn't asked for");

    let inconsistent = Server::start(|_| {
        Some(Reply::Text(
            400,
            "content-type: text/plain".into(),
            "pushed metrics are invalid or inconsistent with existing metrics: 15 errors occurred",
        ))
    })
    .await;
    let refused = push(inconsistent.port).await;
    assert_eq!(refused.code, Some(0), "{}", refused.log);
    assert!(refused.log.contains("answers 400 Bad Request: pushed metrics are invalid or inconsistent"), "{}", refused.log);

    // An ingress that moves http to another address keeps method and body by 308.
    let moved = Server::start(move |request| {
        Some(match request.method.as_str() {
            "PUT" if request.path.starts_with("/metrics/") => Reply::Text(308, "location: /moved".into(), ""),
            _ => Reply::Text(200, "content-type: text/plain".into(), ""),
        })
    })
    .await;
    assert_eq!(push(moved.port).await.code, Some(0));
    let methods: Vec<String> = moved.requests().iter().map(|request| format!("{} {}", request.method, request.path)).collect();
    assert_eq!(methods.last().map(String::as_str), Some("PUT /moved"), "{methods:?}");
}

/// T20: somebody else's Lease of the same name: held for years, without a time, by coordinated leader election, or with fields of
/// the wrong type. A live one is respected and told; nothing panics and nothing is written beside it.
#[tokio::test]
async fn t20_a_lease_of_another_writer_is_respected_and_told() {
    let held = async |spec: Value| {
        let server = Server::start(move |request| {
            let lease = json!({"metadata": {"name": "noderotation", "resourceVersion": "7", "creationTimestamp": "2026-11-30T06:59:50Z"}, "spec": spec.clone()});
            let collision = json!({"kind": "Status", "code": 409, "reason": "AlreadyExists", "message": "leases \"noderotation\" already exists"});
            match request.method.as_str() {
                _ if !request.path.contains("/leases") => None,
                "GET" => Some(Reply::Json(200, lease)),
                _ => Some(Reply::Json(409, collision)),
            }
        })
        .await;
        let ended = ended(Kubeconfig::plain(server.port).run(&[])).await;
        let writes = server.requests().into_iter().filter(|request| request.method != "GET" && !request.path.contains("/leases")).count();
        assert_eq!((writes, ended.log.contains("panicked")), (0, false), "{}", ended.log);
        ended
    };
    let live = "2026-11-30T06:59:55.000000Z";
    for spec in [
        json!({"holderIdentity": "other-tool", "leaseDurationSeconds": i32::MAX, "renewTime": live}),
        json!({"holderIdentity": "other-tool", "leaseDurationSeconds": 60, "renewTime": live, "strategy": "OldestEmulationVersion", "preferredHolder": "us"}),
        json!({"holderIdentity": "other-tool", "renewTime": live}),
        json!({"holderIdentity": "other-tool"}),
    ] {
        let ended = held(spec.clone()).await;
        assert_eq!(ended.code, Some(0), "{spec}: {}", ended.log);
        assert!(ended.log.contains("the Lease is held by other-tool"), "{spec}: {}", ended.log);
    }
    for spec in
        [json!({"holderIdentity": 7}), json!("text"), json!({"holderIdentity": "x", "leaseDurationSeconds": "20", "renewTime": "soon"})]
    {
        let ended = held(spec.clone()).await;
        assert!(ended.code.is_some(), "{spec}: {}", ended.log);
    }
}

fn noderotation(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_noderotation"));
    command.env_clear().args(arguments).stdin(Stdio::null());
    command
}

/// T21: `noderotation crd | head -1`, a full disk, and a terminal of no width: no panic; what could not be written is an error.
#[test]
fn t21_outputs_that_close_fill_up_or_have_no_width() {
    for arguments in [&["crd"][..], &["completion", "bash"], &["check", "--help"]] {
        let mut child = noderotation(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let ended = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(!said.contains("panicked"), "{arguments:?}: {said}");
    }
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let ended = noderotation(&["crd"]).stdout(full).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.code() == Some(1) && said.contains("No space left on device"), "{:?}: {said}", ended.status);
    for columns in ["0", "1", "99999999999999999999", "wide"] {
        let ended = noderotation(&["--help"]).env("COLUMNS", columns).env("TERM", "dumb").output().unwrap();
        assert!(ended.status.success() && !ended.stdout.is_empty(), "{columns}");
    }
}

const POLICY: &str = r#"apiVersion: noderotation.io/v1alpha1
kind: RotationPolicy
metadata:
  name: weekly
spec:
  nodePoolSelector: {}
  maintenanceWindows:
  - {timezone: Asia/Tokyo, days: [Wed, Sat], start: "02:00", end: "06:00"}
"#;

/// What `check` says of this file: its code, and all it prints.
fn checked(bytes: &[u8]) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("policy.yaml"), bytes).unwrap();
    let ended = noderotation(&["check", "--at", "2026-11-30T07:00:00Z", "policy.yaml"]).current_dir(&folder).output().unwrap();
    (ended.status.code(), [ended.stdout, ended.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat())
}

/// T22: the same policy with carriage returns, a byte order mark, aliases, as a JSON document, in a `List` and among empty
/// documents is the same policy.
#[test]
fn t22_yaml_that_means_the_same_is_read_the_same() {
    let plain = checked(POLICY.as_bytes());
    assert_eq!(plain.0, Some(0), "{}", plain.1);
    let aliased = POLICY.replace("- {timezone", "- &w {timezone").replace("\"06:00\"}\n", "\"06:00\"}\n  - *w\n");
    let listed = format!("apiVersion: v1\nkind: List\nitems:\n- {}", POLICY.trim().replace('\n', "\n  "));
    let json = serde_json::to_string(&serde_yaml_ng::from_str::<Value>(POLICY).unwrap()).unwrap();
    let tabbed = json.replace(",\"", ",\n\t\"");
    let variants = [
        POLICY.replace('\n', "\r\n"),
        format!("\u{feff}{POLICY}"),
        aliased,
        listed,
        json,
        tabbed,
        format!("---\n# none\n---\n{POLICY}---\n...\n"),
    ];
    for variant in variants {
        assert_eq!(checked(variant.as_bytes()), plain, "{variant}");
    }
}

/// T23: YAML that means something else than it seems to: refused with its place, never guessed, and never more than a moment.
#[test]
fn t23_yaml_that_means_something_else_is_told_with_its_place() {
    let bomb: String = (0..9)
        .map(|level| format!("l{level}: &l{level} [{}]\n", vec![format!("*l{}", (level as u32).wrapping_sub(1)); 10].join(",")))
        .collect();
    let bomb = bomb.replace("*l4294967295", "x");
    for (broken, told) in [
        (POLICY.replace("  name", "\tname"), "policy.yaml:4:2: error: tabs disallowed"),
        (POLICY.replace("  name: weekly", "  name: weekly\n  name: daily"), "policy.yaml:5:3: error: the key \"name\" is there already"),
        (POLICY.replace("name: weekly", "name: no"), "metadata.name: false"),
        (POLICY.replace("\"02:00\"", "\u{201c}02:00\u{201d}"), "spec.maintenanceWindows[0].start"),
        (POLICY.replace("timezone: Asia", "timezone:\u{a0}Asia"), "spec.maintenanceWindows[0].timezone: missing"),
        (POLICY.replace("weekly", "{{ .Values.name }}"), "policy.yaml:4:10: error: a key has to be text"),
        (POLICY.replace("nodePoolSelector: {}", "nodePoolSelector:"), "spec.nodePoolSelector"),
        (format!("a: {}", "[".repeat(20_000)), "recursion limit exceeded"),
        (bomb, "too many values"),
    ] {
        let (code, said) = checked(broken.as_bytes());
        assert!(code == Some(1) && said.contains(told), "{code:?} {told}: {said:.2000}");
    }
    let utf16: Vec<u8> = "\u{feff}".encode_utf16().chain(POLICY.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    let (code, said) = checked(&utf16);
    assert_eq!((code, said.contains("it is not UTF-8 text") && said.contains("save it as UTF-8")), (Some(2), true), "{said}");
}
