use watchkeeper_derive::Resource;

#[derive(Resource)]
#[resource(group = "example.com", version = "v1", shortnames = "ws")]
struct UnknownSpec {}

#[derive(Resource)]
#[resource(group = "example", version = "v1")]
struct GroupSpec {}

#[derive(Resource)]
#[resource(group = "example.com", version = "v1", version = "v2")]
struct TwiceSpec {}

#[derive(Resource)]
#[resource(group = "example.com", version = "v1", column(name = "A", type = "int", path = ".spec.a"))]
struct ColumnSpec {}

#[derive(Resource)]
#[resource(group = "example.com", version = "v1", column(name = "A", type = "integer"))]
struct PathSpec {}

#[derive(Resource)]
#[resource(group = "example.com", version = "v1", scale(spec = ".spec.replicas", status = ".spec.replicas"))]
struct ScaleSpec {}

#[derive(Resource)]
#[resource(group = "example.com", version = "v1", rule("true", text = "no"))]
struct RuleSpec {}

#[derive(Resource)]
#[resource(group = "example.com", version = "v1", rule("true", message = "a", message = "b"))]
struct RuleTwiceSpec {}

fn main() {}
