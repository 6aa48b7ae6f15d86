//! Headless Chromium, driven by WebDriver.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

/// How long the driver may take to answer at all.
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser with one page; ends when dropped.
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
    _folder: tempfile::TempDir,
}

impl Browser {
    /// Starts it; with `emulation`, it takes itself for that device.
    pub fn start(emulation: Option<Value>) -> Self {
        let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("chromedriver");
        command.arg(format!("--port={port}")).env("HOME", folder.path()).env("TMPDIR", folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let driver = command.spawn().expect("chromedriver can't be started: `make tools` installs it");
        let mut browser = Self { driver, port, session: String::new(), _folder: folder };
        let arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1280,900"];
        let mut options = json!({"args": arguments});
        if let Some(emulation) = emulation {
            options["mobileEmulation"] = emulation;
        }
        let wanted = json!({"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}});
        let begun = Instant::now();
        let answer = loop {
            match browser.ask("POST", "/session", &json!({"capabilities": {"alwaysMatch": wanted}})) {
                Ok(answer) => break answer,
                Err(why) => assert!(begun.elapsed() < PATIENCE, "no answer from chromedriver: {why}"),
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        browser.session = answer["sessionId"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
        browser
    }

    /// Goes to a page.
    pub fn open(&self, url: &str) {
        self.tell("/url", &json!({"url": url}));
    }

    /// What a script returns.
    pub fn run(&self, script: &str) -> Value {
        self.tell("/execute/sync", &json!({"script": script, "args": []}))
    }

    /// Presses a key.
    pub fn press(&self, key: char) {
        let key = key.to_string();
        let strokes = json!([{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]);
        self.tell("/actions", &json!({"actions": [{"type": "key", "id": "keyboard", "actions": strokes}]}));
    }

    /// The colour scheme that the user prefers.
    pub fn prefer(&self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.tell("/goog/cdp/execute", &json!({"cmd": "Emulation.setEmulatedMedia", "params": {"features": features}}));
    }

    /// What stands in the console.
    pub fn complaints(&self) -> Vec<Value> {
        self.tell("/se/log", &json!({"type": "browser"})).as_array().unwrap().clone()
    }

    fn tell(&self, command: &str, body: &Value) -> Value {
        let answer = self.ask("POST", &format!("/session/{}{command}", self.session), body).unwrap();
        assert!(answer.get("error").is_none(), "{command}: {answer}");
        answer
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> std::io::Result<Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let (body, port) = (body.to_string(), self.port);
        let head = format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\nConnection: close");
        stream.write_all(format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).as_bytes())?;
        // The driver keeps the connection open whatever it is asked for.
        let mut reader = BufReader::new(stream);
        let mut length = 0;
        for line in reader.by_ref().lines() {
            let line = line?.to_ascii_lowercase();
            if let Some(number) = line.strip_prefix("content-length:") {
                length = number.trim().parse().map_err(std::io::Error::other)?;
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        Ok(serde_json::from_slice::<Value>(&body)?["value"].clone())
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The driver ends its browser with the session; it would leave it behind if it were killed first.
        let _gone = self.ask("DELETE", &format!("/session/{}", self.session), &json!({}));
        let _already_gone = self.driver.kill();
        let _already_gone = self.driver.wait();
    }
}
