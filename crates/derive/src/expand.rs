//! Generates the code of a kind.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::{Attribute, Data, DeriveInput, Error, Expr, Fields, Ident, Lit, LitStr, Meta, Result, parse_quote};

use crate::attributes::{Attributes, Column, Rule, Scale};

/// Generates the struct of the kind and its implementations.
pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    if let Data::Union(union) = &input.data {
        return Err(Error::new_spanned(
            union.union_token,
            "a spec is a struct or an enum",
        ));
    }
    if !input.generics.params.is_empty() {
        return Err(Error::new_spanned(
            &input.generics,
            "a kind has one schema, so its spec has no parameters",
        ));
    }
    refuse_on_fields(&input.data)?;
    let attributes = Attributes::read(input)?;
    let names = Names::new(input, &attributes)?;
    let object = object(input, &attributes, &names);
    let serde = serde(input, &attributes, &names);
    let definition = definition(input, &attributes, &names);
    Ok(quote!(#object #serde #definition))
}

/// Refuses `#[resource]` on fields and variants instead of ignoring it: schemars has attributes for them.
fn refuse_on_fields(data: &Data) -> Result<()> {
    let of_fields =
        |fields: &Fields| -> Vec<Attribute> { fields.iter().flat_map(|field| field.attrs.clone()).collect() };
    let attributes: Vec<Attribute> = match data {
        Data::Struct(data) => of_fields(&data.fields),
        Data::Enum(data) => {
            let variants = data.variants.iter();
            variants
                .flat_map(|variant| [variant.attrs.clone(), of_fields(&variant.fields)].concat())
                .collect()
        }
        Data::Union(_) => Vec::new(),
    };
    match attributes
        .iter()
        .find(|attribute| attribute.path().is_ident("resource"))
    {
        None => Ok(()),
        Some(attribute) => Err(Error::new_spanned(
            attribute,
            "`#[resource]` is for the whole kind; rules of a field are `#[schemars(extend(\"x-kubernetes-validations\" = …))]`",
        )),
    }
}

/// The names used in the generated code.
struct Names {
    kind: Ident,
    group: LitStr,
    version: LitStr,
    krate: syn::Path,
    metadata: syn::Type,
}

impl Names {
    fn new(input: &DeriveInput, attributes: &Attributes) -> Result<Self> {
        let missing = |word: &str| {
            let problem = format!("a kind needs `#[resource({word})]`");
            Error::new_spanned(&input.ident, problem)
        };
        let krate = attributes
            .krate
            .clone()
            .unwrap_or_else(|| parse_quote!(::watchkeeper::custom));
        let own: syn::Type = parse_quote!(#krate::reexported::meta::ObjectMeta);
        Ok(Self {
            kind: kind(input, attributes)?,
            group: attributes
                .group
                .clone()
                .ok_or_else(|| missing("group = \"example.com\""))?,
            version: attributes
                .version
                .clone()
                .ok_or_else(|| missing("version = \"v1\""))?,
            metadata: attributes.metadata.clone().unwrap_or(own),
            krate,
        })
    }
}

/// The stated kind, or the name of the struct without `Spec`.
fn kind(input: &DeriveInput, attributes: &Attributes) -> Result<Ident> {
    let spec = input.ident.to_string();
    let Some(stated) = &attributes.kind else {
        return match spec.strip_suffix("Spec").filter(|kind| !kind.is_empty()) {
            Some(kind) => Ok(format_ident!("{kind}", span = input.ident.span())),
            None => Err(Error::new_spanned(
                &input.ident,
                "the name of the struct does not end with `Spec`: add `#[resource(kind = \"…\")]`",
            )),
        };
    };
    let kind = stated.value();
    if !kind.starts_with(|c: char| c.is_ascii_uppercase()) || !kind.chars().all(|c| c.is_ascii_alphanumeric())
    {
        return Err(Error::new_spanned(
            stated,
            "a kind is a word in camel case: `Website`",
        ));
    }
    if kind == spec {
        return Err(Error::new_spanned(
            stated,
            "the struct of the kind needs a name of its own: `…Spec` is the spec's",
        ));
    }
    Ok(Ident::new(&kind, stated.span()))
}

fn object(input: &DeriveInput, attributes: &Attributes, names: &Names) -> TokenStream {
    let (spec, visibility) = (&input.ident, &input.vis);
    let Names {
        kind,
        krate,
        metadata,
        ..
    } = names;
    let derives = &attributes.derives;
    let doc = format!(
        "The kind `{kind}` of `{}/{}`.",
        names.group.value(),
        names.version.value()
    );
    let status = attributes.status.as_ref().map(|status| {
        quote! {
            /// The observed state; `None` until a controller has set it.
            pub status: ::core::option::Option<#status>,
        }
    });
    let no_status = attributes
        .status
        .as_ref()
        .map(|_| quote!(status: ::core::option::Option::None,));
    quote! {
        #[doc = #doc]
        #[derive(Clone, Debug #(, #derives)*)]
        #visibility struct #kind {
            /// Name, namespace, labels and other metadata.
            pub metadata: #metadata,
            /// The desired state.
            pub spec: #spec,
            #status
        }

        impl #kind {
            /// An object with only a name and a spec.
            pub fn new(name: impl ::core::convert::Into<::std::string::String>, spec: #spec) -> Self {
                Self {
                    metadata: <#metadata as #krate::Metadata>::named(name.into()),
                    spec,
                    #no_status
                }
            }

            /// The CustomResourceDefinition with only this version.
            ///
            /// # Panics
            /// If the spec or the status has no structural schema; `CustomResource::definition().crd()` returns the
            /// error instead.
            pub fn crd() -> #krate::reexported::serde_json::Value {
                <Self as #krate::CustomResource>::definition()
                    .crd()
                    .unwrap_or_else(|error| ::std::panic!("{} has no structural schema: {error}", ::core::stringify!(#kind)))
            }
        }
    }
}

fn serde(input: &DeriveInput, attributes: &Attributes, names: &Names) -> TokenStream {
    let spec = &input.ident;
    let Names {
        kind,
        krate,
        metadata,
        ..
    } = names;
    let serde = quote!(#krate::reexported::serde);
    let resource = quote!(&<Self as #krate::reexported::client::ResourceType>::resource());
    let (written, read_type, read) = match &attributes.status {
        Some(status) => (
            quote!(self.status.as_ref()),
            quote!(#status),
            quote!(status: parts.status,),
        ),
        None => (
            quote!(::core::option::Option::<&()>::None),
            quote!(#serde::de::IgnoredAny),
            quote!(),
        ),
    };
    quote! {
        impl #serde::Serialize for #kind {
            fn serialize<S: #serde::Serializer>(&self, serializer: S) -> ::core::result::Result<S::Ok, S::Error> {
                #krate::form::write(serializer, #resource, &self.metadata, &self.spec, #written)
            }
        }

        impl<'de> #serde::Deserialize<'de> for #kind {
            fn deserialize<D: #serde::Deserializer<'de>>(deserializer: D) -> ::core::result::Result<Self, D::Error> {
                let parts = #krate::form::read::<D, #metadata, #spec, #read_type>(deserializer, #resource)?;
                ::core::result::Result::Ok(Self {
                    metadata: parts.metadata,
                    spec: parts.spec,
                    #read
                })
            }
        }
    }
}

fn definition(input: &DeriveInput, attributes: &Attributes, names: &Names) -> TokenStream {
    let spec = &input.ident;
    let Names {
        kind,
        group,
        version,
        krate,
        ..
    } = names;
    let kind_text = kind.to_string();
    let scope = match attributes.namespaced {
        true => quote!(namespaced),
        false => quote!(cluster),
    };
    let plural = match &attributes.plural {
        Some(plural) => quote!(#plural),
        None => quote!(#krate::plural(#kind_text)),
    };
    let singular = or(attributes.singular.as_ref(), &kind_text.to_lowercase());
    let description = documentation(&input.attrs);
    let Attributes {
        short_names,
        categories,
        selectable,
        ..
    } = attributes;
    let columns = attributes.columns.iter().map(|column| column_code(column, krate));
    let rules = attributes.rules.iter().map(|rule| rule_code(rule, krate));
    let scale = optional(attributes.scale.as_ref().map(|scale| scale_code(scale, krate)));
    let served = attributes.served.as_ref().is_none_or(|flag| flag.value);
    let storage = attributes.storage.as_ref().is_none_or(|flag| flag.value);
    let deprecated = optional(attributes.deprecated.as_ref().map(|text| quote!(#text)));
    let status_type = attributes
        .status
        .as_ref()
        .map_or_else(|| quote!(()), |status| quote!(#status));
    let status = attributes.status.as_ref();
    let status = optional(status.map(|status| quote!(|generator| generator.subschema_for::<#status>())));
    quote! {
        impl #krate::reexported::client::ResourceType for #kind {
            fn resource() -> #krate::reexported::meta::Resource {
                #krate::reexported::meta::Resource::#scope(#group, #version, #kind_text, #plural)
            }

            fn identity(&self) -> #krate::reexported::client::Identity {
                #krate::Metadata::identity(&self.metadata)
            }
        }

        impl #krate::CustomResource for #kind {
            type Spec = #spec;
            type Status = #status_type;

            fn definition() -> #krate::Definition {
                #krate::Definition {
                    resource: <Self as #krate::reexported::client::ResourceType>::resource(),
                    singular: #singular.into(),
                    description: #description,
                    short_names: &[#(#short_names),*],
                    categories: &[#(#categories),*],
                    columns: &[#(#columns),*],
                    scale: #scale,
                    selectable: &[#(#selectable),*],
                    rules: &[#(#rules),*],
                    served: #served,
                    storage: #storage,
                    deprecated: #deprecated,
                    spec: |generator| generator.subschema_for::<#spec>(),
                    status: #status,
                }
            }
        }
    }
}

fn column_code(column: &Column, krate: &syn::Path) -> TokenStream {
    let Column {
        name, path, priority, ..
    } = column;
    let (column_type, description, format) = (
        or(column.column_type.as_ref(), ""),
        or(column.description.as_ref(), ""),
        or(column.format.as_ref(), ""),
    );
    let priority = priority
        .as_ref()
        .map_or_else(|| quote!(0), |priority| quote!(#priority));
    quote! {
        #krate::Column {
            name: #name,
            column_type: #column_type,
            path: #path,
            description: #description,
            format: #format,
            priority: #priority,
        }
    }
}

fn scale_code(scale: &Scale, krate: &syn::Path) -> TokenStream {
    let Scale {
        spec,
        status,
        selector,
    } = scale;
    let selector = or(selector.as_ref(), "");
    quote!(#krate::Scale { spec: #spec, status: #status, selector: #selector })
}

fn rule_code(rule: &Rule, krate: &syn::Path) -> TokenStream {
    let text = &rule.rule;
    let message = or(rule.message.as_ref(), "");
    let message_expression = or(rule.message_expression.as_ref(), "");
    let (reason, field_path) = (or(rule.reason.as_ref(), ""), or(rule.field_path.as_ref(), ""));
    quote! {
        #krate::Rule {
            rule: #text,
            message: #message,
            message_expression: #message_expression,
            reason: #reason,
            field_path: #field_path,
        }
    }
}

fn or(text: Option<&LitStr>, otherwise: &str) -> LitStr {
    text.cloned()
        .unwrap_or_else(|| LitStr::new(otherwise, Span::call_site()))
}

fn optional(code: Option<TokenStream>) -> TokenStream {
    match code {
        Some(code) => quote!(::core::option::Option::Some(#code)),
        None => quote!(::core::option::Option::None),
    }
}

/// The doc comment of the struct, with the lines of a paragraph joined, as schemars does for fields.
fn documentation(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => Some(text.value().trim().to_owned()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    });
    let lines: Vec<String> = lines.collect();
    let paragraphs = lines.split(|line| line.is_empty()).map(|lines| lines.join(" "));
    let paragraphs: Vec<String> = paragraphs.filter(|text| !text.is_empty()).collect();
    paragraphs.join("\n\n")
}
