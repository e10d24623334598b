use watchkeeper_derive::Resource;

#[derive(Resource)]
#[resource(group = "example.com")]
struct VersionSpec {}

#[derive(Resource)]
#[resource(group = "example.com", version = "v1")]
struct Website {}

#[derive(Resource)]
#[resource(group = "example.com", version = "v1", kind = "Page")]
struct Page {}

#[derive(Resource)]
#[resource(group = "example.com", version = "v1")]
struct GenericSpec<T> {
    value: T,
}

#[derive(Resource)]
#[resource(group = "example.com", version = "v1")]
struct FieldSpec {
    #[resource(rule = "self > 0")]
    count: u32,
}

#[derive(Resource)]
#[resource(group = "example.com", version = "v1")]
enum VariantSpec {
    #[resource(kind = "Other")]
    One { count: u32 },
}

#[derive(Resource)]
#[resource(group = "example.com", version = "1")]
struct DigitSpec {}

#[derive(Resource)]
#[resource(group = "example.com", version = "v1", shortname = "WS")]
struct ShortSpec {}

fn main() {}
