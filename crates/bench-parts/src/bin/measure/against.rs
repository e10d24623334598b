//! Growth on a server that runs already, such as kube-apiserver: the same requests, without what only its process tells.
//!
//! It is not started anew for each size: pods are added up to the next one, and creates are those of the added pods.

use std::path::Path;
use std::time::{Duration, Instant};

use http::Method;

use crate::Failure;
use crate::address::Address;
use crate::cases::FanOut;
use crate::growth::{Sizes, WRITERS, listed};
use crate::load::{self, Client, JSON, PODS};
use crate::report::{Yardstick, figure, line, percentiles};

pub(crate) async fn measure(kubeconfig: &str, sizes: &Sizes) -> Result<(), Failure> {
    let server = Address::of_kubeconfig(Path::new(kubeconfig))?;
    objects(&server, &sizes.objects).await?;
    for &count in &sizes.watches {
        let mut fan_out = FanOut::open(&server, count).await?;
        let mut times = fan_out.write().await?;
        fan_out.close().await?;
        let what = format!("one write to {count} watches, p50 / p99");
        figure(&what, percentiles(&mut times), Yardstick::default())?;
    }
    Ok(())
}

async fn objects(server: &Address, sizes: &[usize]) -> Result<(), Failure> {
    line("per pod            create     list    watch")?;
    line("                       µs       µs       µs")?;
    let mut there = 0;
    for &count in sizes {
        if count <= there {
            return Err("sizes must grow".into());
        }
        let (_, created) = load::create_all(server, WRITERS, PODS, there..count, load::pod).await?;
        let created = each(created, count - there);
        let mut client = Client::connect(server).await?;
        let listed = each(listed(&mut client).await?, count);
        let watched = each(client.first_events(count).await?, count);
        line(&format!(
            "{count:>9} pods {created:>10.0} {listed:>8.2} {watched:>8.2}"
        ))?;
        there = count;
    }
    let began = Instant::now();
    let mut client = Client::connect(server).await?;
    let path = format!("{PODS}?gracePeriodSeconds=0");
    let deleted = client.send(Method::DELETE, &path, JSON, String::new()).await?;
    load::read(deleted).await?;
    line(&format!(
        "deleted in one request: {:.1} µs per pod",
        each(began.elapsed(), there)
    ))?;
    Ok(())
}

fn each(time: Duration, count: usize) -> f64 {
    time.as_secs_f64() * 1e6 / count as f64
}
