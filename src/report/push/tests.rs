use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::*;

/// A server on loopback that takes one request, gives one answer, and returns the request.
async fn gateway(answer: &'static str) -> (String, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let task = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"up 1\n") {
            let mut buffer = [0; 1024];
            let read = stream.read(&mut buffer).await.unwrap();
            assert_ne!(read, 0, "the request ended early: {}", String::from_utf8_lossy(&request));
            request.extend_from_slice(&buffer[..read]);
        }
        stream.write_all(answer.as_bytes()).await.unwrap();
        String::from_utf8(request).unwrap()
    });
    (address, task)
}

const ACCEPTED: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

fn group(address: &str, labels: &[&str]) -> Result<String, AddressError> {
    let labels: Vec<Grouping> = labels.iter().map(|label| label.parse().unwrap()).collect();
    Gateway::new(address, &labels).map(|gateway| gateway.group.into())
}

#[test]
fn the_group_lies_under_the_address_that_was_given() {
    assert_eq!(group("http://gw:9091", &[]).unwrap(), "http://gw:9091/metrics/job/noderotation");
    assert_eq!(
        group("https://gw/push/", &["cluster=a/b", "x=1 2"]).unwrap(),
        "https://gw/push/metrics/job/noderotation/cluster@base64/YS9i/x/1%202"
    );
    assert_eq!(group("http://gw", &["x=", "y=.."]).unwrap(), "http://gw/metrics/job/noderotation/x@base64/=/y@base64/Li4");
}

#[test]
fn what_is_no_address_is_refused_with_the_reason() {
    for (address, why) in [
        ("gw:9091", "http://"),
        ("", "relative URL"),
        ("ftp://gw", "http://"),
        ("http://gw?x=1", "before any ?"),
        ("http://", "empty host"),
    ] {
        let error = group(address, &[]).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    assert!(!group("ftp://user:secret@gw", &[]).unwrap_err().to_string().contains("secret"));
}

#[tokio::test]
async fn a_complete_pass_replaces_the_group_and_others_add_to_it() {
    for (extent, method) in [(Extent::Complete, "PUT"), (Extent::PoolsFailed, "POST"), (Extent::NoView, "POST")] {
        let (address, task) = gateway(ACCEPTED).await;
        Gateway::new(&address, &[]).unwrap().push(extent, "up 1\n".into()).await.unwrap();
        let request = task.await.unwrap();
        assert!(request.starts_with(&format!("{method} /metrics/job/noderotation HTTP/1.1\r\n")), "{request}");
        assert!(request.contains("content-type: text/plain; version=0.0.4\r\n"), "{request}");
    }
}

#[tokio::test]
async fn a_pass_that_found_the_lease_held_sends_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gateway = Gateway::new(&format!("http://{}", listener.local_addr().unwrap()), &[]).unwrap();
    gateway.push(Extent::HeldElsewhere, "up 1\n".into()).await.unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(50), listener.accept()).await.is_err());
}

#[tokio::test]
async fn a_refusal_is_told_in_the_gateways_words_and_without_credentials() {
    let (address, task) = gateway("HTTP/1.1 400 Bad Request\r\ncontent-length: 14\r\nconnection: close\r\n\r\nno timestamps\n").await;
    let gateway = Gateway::new(&address.replace("http://", "http://user:secret@"), &[]).unwrap();
    let error = gateway.push(Extent::Complete, "up 1\n".into()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("pushing metrics to {address}/metrics/job/noderotation: the Pushgateway answers 400 Bad Request: no timestamps")
    );
    assert!(task.await.unwrap().contains("authorization: Basic dXNlcjpzZWNyZXQ="));
}

#[tokio::test]
async fn a_gateway_that_is_not_there_is_told_without_credentials() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://user:secret@{}", listener.local_addr().unwrap());
    drop(listener);
    let error = Gateway::new(&address, &[]).unwrap().push(Extent::Complete, "up 1\n".into()).await.unwrap_err();
    assert!(matches!(error, Error::Send { .. }), "{error:?}");
    assert!(!format!("{error:?} {error}").contains("secret"), "{error:?}");
}

#[test]
fn a_metrics_file_is_replaced_whole_and_leaves_nothing_beside() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("noderotation.prom");
    std::fs::write(&path, "an older and longer text\n").unwrap();
    MetricsFile::Path(path.clone()).write("up 1\n").unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "up 1\n");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn a_metrics_file_that_cannot_be_written_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("missing").join("noderotation.prom");
    let error = MetricsFile::Path(path.clone()).write("up 1\n").unwrap_err();
    assert_eq!(error.to_string(), format!("writing metrics to {}", path.display()));
    assert_eq!(MetricsFile::from("-"), MetricsFile::Stdout);
    // A directory in its place can't be replaced, and nothing is left of the attempt.
    std::fs::create_dir(directory.path().join("taken")).unwrap();
    MetricsFile::Path(directory.path().join("taken")).write("up 1\n").unwrap_err();
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}
