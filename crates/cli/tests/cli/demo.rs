//! The whole demo: every object is deleted again, and it prints the next steps.

use crate::support::World;

#[tokio::test]
async fn everything_that_comes_goes() {
    let world = World::new().await;
    let screen = world.run("demo --pace 0s --for 5m").await;
    let names = |event: &str| -> Vec<&str> {
        let lines = screen.lines().filter(|line| line.starts_with(event));
        let mut names: Vec<_> = lines.filter_map(|line| line.split_whitespace().nth(2)).collect();
        names.sort_unstable();
        names
    };
    assert_eq!(names("ADDED"), names("DELETED"), "{screen}");
    assert!(names("ADDED").contains(&"service/web"), "{screen}");
    let pods = names("ADDED")
        .iter()
        .filter(|name| name.starts_with("pod/"))
        .count();
    assert!(
        pods >= 7,
        "three, three new ones and a replacement, not {pods}:\n{screen}"
    );
    assert!(screen.contains("3/3 ready"), "{screen}");
    assert!(screen.contains("What to type next:"), "{screen}");
}

#[tokio::test]
async fn without_a_simulator_only_what_was_typed_happens() {
    let world = World::new().await;
    let screen = world.run("demo --pace 0s --no-simulator").await;
    assert!(screen.contains("> 5 events in "), "{screen}");
    assert!(screen.contains("2 added, 1 modified, 2 deleted"), "{screen}");
}
