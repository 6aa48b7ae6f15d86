//! Counts the bytes on the wire, TLS and all: a proxy on loopback that passes them on.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, tcp},
};

/// What went through.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes to the API server.
    pub sent: u64,
    /// Bytes from it.
    pub received: u64,
    /// Connections.
    pub connections: u64,
}

impl Traffic {
    /// Bytes both ways.
    pub fn both(&self) -> u64 {
        self.sent + self.received
    }
}

/// A proxy that counts.
pub struct Wire {
    counts: Arc<[AtomicU64; 3]>,
    /// A kubeconfig that goes through it.
    pub kubeconfig: PathBuf,
}

impl Wire {
    /// Stands in front of the server of this kubeconfig.
    pub async fn before(kubeconfig: &Path) -> Self {
        let text = std::fs::read_to_string(kubeconfig).unwrap();
        let mut config: serde_json::Value = serde_json::from_str(&text).unwrap();
        let server = &mut config["clusters"][0]["cluster"]["server"];
        let target = server.as_str().unwrap().trim_start_matches("https://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        *server = format!("https://{}", listener.local_addr().unwrap()).into();
        let counted = kubeconfig.with_extension("counted");
        std::fs::write(&counted, config.to_string()).unwrap();
        let counts = Arc::<[AtomicU64; 3]>::default();
        let all = Arc::clone(&counts);
        tokio::spawn(async move {
            while let Ok((inner, _)) = listener.accept().await {
                let outer = TcpStream::connect(&target).await.unwrap();
                all[2].fetch_add(1, Ordering::Relaxed);
                let ((inner_read, inner_write), (outer_read, outer_write)) = (inner.into_split(), outer.into_split());
                tokio::spawn(pass_on(inner_read, outer_write, Arc::clone(&all), 0));
                tokio::spawn(pass_on(outer_read, inner_write, Arc::clone(&all), 1));
            }
        });
        Self { counts, kubeconfig: counted }
    }

    /// What went through since the last time.
    pub fn take(&self) -> Traffic {
        let [sent, received, connections] = [0, 1, 2].map(|index| self.counts[index].swap(0, Ordering::Relaxed));
        Traffic { sent, received, connections }
    }
}

async fn pass_on(mut from: tcp::OwnedReadHalf, mut to: tcp::OwnedWriteHalf, counts: Arc<[AtomicU64; 3]>, index: usize) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        counts[index].fetch_add(length as u64, Ordering::Relaxed);
        if to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
