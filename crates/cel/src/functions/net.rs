//! IP addresses and CIDRs. Parsing is strict: no zones, no IPv4-mapped IPv6, no leading zeros.

use std::net::{IpAddr, Ipv6Addr};

use super::strings::text;
use super::{Evaluated, Function, no_overload, tenth};
use crate::error::EvalError;
use crate::value::{Opaque, Value};

const TEST: &[&str] = &["net.IP.() -> bool"];

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new(
        "ip",
        &["(string) -> net.IP", "net.CIDR.() -> net.IP"],
        |v, _| match &v[0] {
            Value::Opaque(Opaque::Cidr(address, _)) => Ok(Value::Opaque(Opaque::Ip(*address))),
            other => Ok(Value::Opaque(Opaque::Ip(read_ip(text(other)?)?))),
        },
    )
    .reading(),
    Function::new("isIP", &["(string) -> bool"], |v, _| {
        Ok(Value::Bool(read_ip(text(&v[0])?).is_ok()))
    })
    .reading(),
    Function::new("ip.isCanonical", &["(string) -> bool"], |v, _| {
        let text = text(&v[0])?;
        Ok(Value::Bool(read_ip(text)?.to_string() == text))
    })
    .reading(),
    Function::new("family", &["net.IP.() -> int"], |v, _| match address(&v[0])? {
        IpAddr::V4(_) => Ok(Value::Int(4)),
        IpAddr::V6(_) => Ok(Value::Int(6)),
    }),
    Function::new("isUnspecified", TEST, |v, _| test(v, |ip| ip.is_unspecified())),
    Function::new("isLoopback", TEST, |v, _| test(v, |ip| ip.is_loopback())),
    Function::new("isLinkLocalMulticast", TEST, |v, _| {
        test(v, is_link_local_multicast)
    }),
    Function::new("isLinkLocalUnicast", TEST, |v, _| test(v, is_link_local_unicast)),
    Function::new("isGlobalUnicast", TEST, |v, _| {
        test(v, |ip| {
            let is_broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
            let is_special = ip.is_unspecified() || ip.is_loopback() || ip.is_multicast();
            !is_broadcast && !is_special && !is_link_local_unicast(ip)
        })
    }),
    Function::new("cidr", &["(string) -> net.CIDR"], |v, _| {
        let (address, bits) = read_cidr(text(&v[0])?)?;
        Ok(Value::Opaque(Opaque::Cidr(address, bits)))
    })
    .reading(),
    Function::new("isCIDR", &["(string) -> bool"], |v, _| {
        Ok(Value::Bool(read_cidr(text(&v[0])?).is_ok()))
    })
    .reading(),
    Function::new(
        "containsIP",
        &["net.CIDR.(string) -> bool", "net.CIDR.(net.IP) -> bool"],
        |v, _| {
            let (range, bits) = range(&v[0])?;
            let wanted = match &v[1] {
                Value::Opaque(Opaque::Ip(address)) => *address,
                other => read_ip(text(other)?)?,
            };
            Ok(Value::Bool(is_within(wanted, range, bits)))
        },
    )
    .costing(|n| 4 + tenth(n.of(1))),
    Function::new(
        "containsCIDR",
        &["net.CIDR.(string) -> bool", "net.CIDR.(net.CIDR) -> bool"],
        |v, _| {
            let (outer, bits) = range(&v[0])?;
            let (inner, more) = match &v[1] {
                Value::Opaque(Opaque::Cidr(address, bits)) => (*address, *bits),
                other => read_cidr(text(other)?)?,
            };
            Ok(Value::Bool(more >= bits && is_within(inner, outer, bits)))
        },
    )
    .costing(|n| 7 + tenth(n.of(1))),
    Function::new("masked", &["net.CIDR.() -> net.CIDR"], |v, _| {
        let (address, bits) = range(&v[0])?;
        Ok(Value::Opaque(Opaque::Cidr(masked(address, bits), bits)))
    }),
    Function::new("prefixLength", &["net.CIDR.() -> int"], |v, _| {
        Ok(Value::Int(i64::from(range(&v[0])?.1)))
    }),
];

fn read_ip(text: &str) -> Result<IpAddr, EvalError> {
    let refused = |why: &str| {
        EvalError::failed(format!(
            "IP Address {text:?} parse error during conversion from string: {why}"
        ))
    };
    if text.contains('%') {
        return Err(refused("IP address with zone value is not allowed"));
    }
    let address: IpAddr = text
        .parse()
        .map_err(|_| refused(&format!("ParseAddr({text:?}): unable to parse IP")))?;
    match address {
        IpAddr::V6(v6) if is_mapped(v6) => Err(refused("IPv4-mapped IPv6 address is not allowed")),
        address => Ok(address),
    }
}

fn is_mapped(address: Ipv6Addr) -> bool {
    address.to_ipv4_mapped().is_some()
}

fn read_cidr(text: &str) -> Result<(IpAddr, u8), EvalError> {
    let refused = |why: &str| {
        EvalError::failed(format!(
            "network address parse error during conversion from string: netip.ParsePrefix({text:?}): {why}"
        ))
    };
    let (address, bits) = text.split_once('/').ok_or_else(|| refused("no '/'"))?;
    let address: IpAddr = address.parse().map_err(|_| refused("unable to parse IP"))?;
    let is_plain = !bits.is_empty() && bits.bytes().all(|c| c.is_ascii_digit());
    let is_padded = bits.len() > 1 && bits.starts_with('0');
    let bits: u8 = match is_plain && !is_padded {
        true => bits.parse().map_err(|_| refused("prefix length out of range"))?,
        false => return Err(refused(&format!("bad bits after slash: {bits:?}"))),
    };
    match address {
        IpAddr::V4(_) if bits > 32 => Err(refused("prefix length out of range")),
        IpAddr::V6(_) if bits > 128 => Err(refused("prefix length out of range")),
        IpAddr::V6(v6) if is_mapped(v6) => Err(refused("IPv4-mapped IPv6 address is not allowed")),
        address => Ok((address, bits)),
    }
}

fn address(value: &Value<'_>) -> Result<IpAddr, EvalError> {
    match value {
        Value::Opaque(Opaque::Ip(address)) => Ok(*address),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn range(value: &Value<'_>) -> Result<(IpAddr, u8), EvalError> {
    match value {
        Value::Opaque(Opaque::Cidr(address, bits)) => Ok((*address, *bits)),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn test<'a>(v: &[Value<'a>], holds: fn(IpAddr) -> bool) -> Evaluated<'a> {
    match &v[0] {
        Value::Opaque(Opaque::Ip(address)) => Ok(Value::Bool(holds(*address))),
        _ => no_overload(),
    }
}

fn is_link_local_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.segments()[0] & 0xffc0 == 0xfe80,
    }
}

fn is_link_local_multicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.octets()[..3] == [224, 0, 0],
        IpAddr::V6(v6) => v6.segments()[0] & 0xff0f == 0xff02,
    }
}

fn masked(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            IpAddr::from((u32::from(v4) & mask).to_be_bytes())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            IpAddr::from((u128::from(v6) & mask).to_be_bytes())
        }
    }
}

fn is_within(address: IpAddr, range: IpAddr, bits: u8) -> bool {
    address.is_ipv4() == range.is_ipv4() && masked(address, bits) == masked(range, bits)
}
