//! The main path: nodes are replaced one after another, and nobody notices.

use std::time::Duration;

use control_plane::{Options, Pool};

use crate::{passes::Passes, policy::policy};

#[tokio::test(flavor = "multi_thread")]
async fn three_part_filled_nodes_are_replaced_one_after_another() {
    let passes = Passes::start(Options::default()).await;
    let pool = Pool::new("web").label("rotate", "web").expire_after("720h").termination_grace_period("10m");
    let workload = passes.plane.part_filled_fleet(&pool, 3).await.unwrap();
    let observer = passes.plane.observe(&workload).await.unwrap();
    let before: Vec<String> = names(&passes, "web").await;
    passes.plane.apply_objects(&[policy("web")]).await.unwrap();

    passes.until("three rotations have succeeded", Duration::from_secs(400), async |_| passes.totals("web").await["success"] == 3).await;
    let observed = observer.observed();
    println!("{observed:?}");
    let after = names(&passes, "web").await;
    println!("{before:?} -> {after:?}");
    println!("{:#?}", passes.events().await);
    println!("{:?}", passes.leftovers().await);
}

async fn names(passes: &Passes, pool: &str) -> Vec<String> {
    passes.plane.node_claims_of(pool).await.unwrap().into_iter().filter_map(|claim| claim.metadata.name).collect()
}
