//! Measures the program as users run it: in its own process, over TLS, with data on disk.
//!
//! ```text
//! cargo build --release -p watchkeeper-cli
//! cargo run --release -p watchkeeper-bench-parts --bin measure -- target/release/watchkeeper [OBJECTS]
//! cargo run --release -p watchkeeper-bench-parts --bin measure -- target/release/watchkeeper growth 1000,10000 1,100 [KUBECONFIG]
//! cargo run --release -p watchkeeper-bench-parts --bin measure -- target/release/watchkeeper nodes 10000 5000
//! cargo run --release -p watchkeeper-bench-parts --bin measure -- target/release/watchkeeper servers 10000
//! cargo run --release -p watchkeeper-bench-parts --bin measure -- against KUBECONFIG 1000,10000 1,100
//! ```
//!
//! The second form measures only how costs grow, with these numbers of pods and of watches; the third a simulated
//! cluster with these numbers of nodes and deployments; the fourth one, two and three servers over an etcd with three
//! members, with this number of objects. The last form measures growth on a server that runs already, such as
//! kube-apiserver, without its memory and processor time; the second form does so too, in the same run, if it has a
//! kubeconfig. It creates pods in the namespace `default` and deletes all of them. The kubeconfig is one that
//! `kubectl config view --raw --flatten --minify` prints. A kube-apiserver without controllers needs
//! `--disable-admission-plugins=ServiceAccount`.
//!
//! Each line has the measured value, its goal, and the value of kube-apiserver v1.37 with etcd 3.7 on another machine
//! with two cores; only the orders of magnitude are comparable. Memory is that of a fresh process per case.

mod address;
mod against;
mod cases;
mod growth;
mod load;
mod nodes;
mod program;
mod report;
mod servers;
mod watches;

use std::path::PathBuf;

use growth::Sizes;
use program::Program;
use watchkeeper_bench_parts::connector::Failure;

/// The number of pods and of namespaces, as in the kube-apiserver measurements.
const OBJECTS: usize = 30_000;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let program = arguments
        .next()
        .ok_or("say where the program is: target/release/watchkeeper")?;
    if program == "against" {
        let kubeconfig = arguments.next().ok_or("against which kubeconfig?")?;
        let sizes: Vec<String> = arguments.collect();
        return against::measure(&kubeconfig, &Sizes::read(&sizes)?).await;
    }
    let program = Program::new(PathBuf::from(program))?;
    let arguments: Vec<String> = arguments.collect();
    if let [word, sizes @ ..] = arguments.as_slice() {
        match word.as_str() {
            "growth" => return growth_beside(&program, sizes).await,
            "nodes" => return nodes::measure(&program, sizes).await,
            "servers" => return servers::measure(&program, sizes).await,
            _ => {}
        }
    }
    let objects = arguments.first().map(|text| text.parse()).transpose()?;
    let objects: usize = objects.unwrap_or(OBJECTS);

    report::head()?;
    cases::disk()?;
    cases::start(&program).await?;
    cases::full(&program, objects).await?;
    growth(&program, &Sizes::default()).await?;
    growth::connections(&program).await?;
    Ok(())
}

/// Growth of the program, and then of the server of a kubeconfig, if there is one.
async fn growth_beside(program: &Program, arguments: &[String]) -> Result<(), Failure> {
    let (sizes, kubeconfig) = arguments.split_at(arguments.len().min(2));
    let sizes = Sizes::read(sizes)?;
    growth(program, &sizes).await?;
    match kubeconfig {
        [] => Ok(()),
        [kubeconfig] => {
            report::line("")?;
            report::line(&format!("the server of {kubeconfig}:"))?;
            against::measure(kubeconfig, &sizes).await
        }
        _ => Err("growth needs sizes, watches and at most one kubeconfig".into()),
    }
}

async fn growth(program: &Program, sizes: &Sizes) -> Result<(), Failure> {
    growth::objects(program, sizes).await?;
    growth::watches(program, sizes).await
}
