//! `make cluster`: a control plane to try things on, until Ctrl-C.

use std::process::ExitCode;

use control_plane::{ControlPlane, Error, Options, Pool, asked_to_end};

const DEMO_POOL: &str = "demo";
const DEMO_NODES: u32 = 2;

#[tokio::main]
async fn main() -> ExitCode {
    let outcome = tokio::select! {
        outcome = run() => outcome,
        () = asked_to_end() => Ok(()),
    };
    match outcome {
        Ok(()) => {
            println!("cluster: ended");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("cluster: {error:?}");
            ExitCode::FAILURE
        }
    }
}

/// Dropping this future, as the signal does, ends the control plane.
async fn run() -> Result<(), Error> {
    println!("cluster: starting");
    let plane = ControlPlane::start(Options::default()).await?;
    println!("cluster: bringing {DEMO_NODES} Nodes of the NodePool {DEMO_POOL}, part filled");
    let pool = Pool::new(DEMO_POOL).expire_after("720h").termination_grace_period("1h");
    plane.part_filled_fleet(&pool, DEMO_NODES).await?;
    let kubeconfig = plane.kubeconfig();
    println!(
        "cluster: ready; logs are in {}\n\n  export KUBECONFIG={}\n  {} get nodepools,nodeclaims,nodes,pods\n\nCtrl-C ends it.",
        plane.directory().display(),
        kubeconfig.display(),
        plane.kubectl().get_program().display(),
    );
    std::future::pending::<()>().await;
    Ok(())
}
