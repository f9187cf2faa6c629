package kernel

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
)

// library holds the functions that kernels share, in an order in which each
// uses only those before it.
var library = append([]function{
	// NaNs.
	{"isNaN", `FN bool isNaN(float x) {
	return (F2U(x) & 0x7fffffffu) > 0x7f800000u;
}`},
	{"canonical", `FN float canonical(float x) {
	if (isNaN(x)) {
		return U2F(0x7fc00000u);
	}
	return x;
}`},
	// A sum that began as +0 is never -0, but a compiler that takes 0 + x for x may
	// have made it so.
	{"sumOf", `FN float sumOf(float x) {
	if (F2U(x) == 0x80000000u) {
		return 0.0f;
	}
	return canonical(x);
}`},

	// Bytes of words: byte at of the word that holds it, and four bytes from byte at
	// on, of which next is the word that holds the last.
	{"byteAt", `FN uint byteAt(uint word, uint at) {
	return (word >> ((at & 3u) << 3u)) & 0xffu;
}`},
	{"bytesAt", `FN uint bytesAt(uint word, uint next, uint at) {
	uint s = (at & 3u) << 3u;
	if (s == 0u) {
		return word;
	}
	return (word >> s) | (next << (32u - s));
}`},

	// Numbers that grow with x.
	{"orderOf", `FN uint orderOf(float x) {
	uint b = F2U(x);
	if (isNaN(x)) {
		return 0u;
	}
	if ((b & 0x80000000u) == 0u) {
		return b | 0x80000000u;
	}
	if (b == 0x80000000u) {
		return b;
	}
	return ~b;
}`},

	// 16-bit types. A NaN keeps its upper bits when it is rounded, and is quiet.
	{"toBF16", `FN float toBF16(float x) {
	uint b = F2U(x);
	if (isNaN(x)) {
		if ((b & 0xffffu) == 0u) {
			return x;
		}
		return U2F((b & 0xffff0000u) | 0x400000u);
	}
	return U2F((b + 0x7fffu + ((b >> 16u) & 1u)) & 0xffff0000u);
}`},
	{"toF16", `FN float toF16(float x) {
	uint b = F2U(x);
	uint sign = b & 0x80000000u;
	uint a = b & 0x7fffffffu;
	if (a > 0x7f800000u) {
		if ((b & 0x1fffu) == 0u) {
			return x;
		}
		return U2F((b & 0xffffe000u) | 0x400000u);
	}
	if (a >= 0x477ff000u) {
		return U2F(sign | 0x7f800000u);
	}
	if (a >= 0x38800000u) {
		return U2F((b + 0xfffu + ((b >> 13u) & 1u)) & 0xffffe000u);
	}
	// Below 2^-14: a multiple of 2^-24.
	uint s = 126u - (a >> 23u);
	if (s > 24u) {
		return U2F(sign);
	}
	uint m = (a & 0x7fffffu) | 0x800000u;
	uint r = m >> s;
	uint lost = m & ((1u << s) - 1u);
	uint half_ = 1u << (s - 1u);
	if (lost > half_ || (lost == half_ && (r & 1u) == 1u)) {
		r += 1u;
	}
	return U2F(F2U(float(r) * U2F(0x33800000u)) | sign);
}`},
	{"rounded", `FN float rounded(float x, uint type) {
	if (type == 1u) {
		return toBF16(x);
	}
	if (type == 2u) {
		return toF16(x);
	}
	return x;
}`},
	{"fromF16", `FN float fromF16(uint h) {
	uint o = (h & 0x7fffu) << 13u;
	uint e = o & 0x0f800000u;
	o += 0x38000000u;
	if (e == 0x0f800000u) {
		o += 0x38000000u;
	}
	if (e == 0u) {
		// The difference of two numbers that are not subnormal is exact.
		o = F2U(U2F(o + 0x800000u) - U2F(0x38800000u));
	}
	return U2F(o | ((h & 0x8000u) << 16u));
}`},

	// Division and square root, correctly rounded: an estimate of the quotient or
	// root to 25 bits and a count of what it misses in whole numbers, whose lowest
	// 32 bits are enough since the estimate is near.
	{"shiftOf", `FN uint shiftOf(uint m) {
	// By how many bits a subnormal mantissa m, 0 < m < 2^23, must move up.
	return 150u - (F2U(float(m)) >> 23u);
}`},
	{"reciprocal", `FN float reciprocal(float d) {
	// About 1/d for 1 <= d < 2, to a few units in the last place.
	float r = (` + c(2.1212122) + ` - ` + c(1.4545455) + ` * d) + ` + c(0.3232323) + ` * (d * d);
	r = r * (2.0f - d * r);
	return r * (2.0f - d * r);
}`},
	{"quotient", `FN float quotient(float a, float b) {
	uint sign = (F2U(a) ^ F2U(b)) & 0x80000000u;
	uint ma = F2U(a) & 0x7fffffffu;
	uint mb = F2U(b) & 0x7fffffffu;
	if (ma > 0x7f800000u || mb > 0x7f800000u || (ma == mb && (ma == 0u || ma == 0x7f800000u))) {
		return U2F(0x7fc00000u);
	}
	if (ma == 0u || mb == 0x7f800000u) {
		return U2F(sign);
	}
	if (mb == 0u || ma == 0x7f800000u) {
		return U2F(sign | 0x7f800000u);
	}
	int e = int(ma >> 23u) - int(mb >> 23u) + 127;
	if (ma < 0x800000u) {
		uint s = shiftOf(ma);
		ma = ma << s;
		e += 1 - int(s);
	} else {
		ma = (ma & 0x7fffffu) | 0x800000u;
	}
	if (mb < 0x800000u) {
		uint s = shiftOf(mb);
		mb = mb << s;
		e -= 1 - int(s);
	} else {
		mb = (mb & 0x7fffffu) | 0x800000u;
	}
	uint more = 24u;
	if (ma < mb) {
		more = 25u;
		e -= 1;
	}
	float fa = U2F((ma & 0x7fffffu) | 0x3f800000u);
	float fb = U2F((mb & 0x7fffffu) | 0x3f800000u);
	uint q = uint((fa * reciprocal(fb)) * U2F((more + 127u) << 23u));
	uint left = (ma << more) - q * mb;
	while (left >= 0x80000000u) {
		q -= 1u;
		left += mb;
	}
	while (left >= mb) {
		q += 1u;
		left -= mb;
	}
	if (e >= 255) {
		return U2F(sign | 0x7f800000u);
	}
	uint drop = 1u;
	uint high = 0u;
	if (e < 1) {
		if (e < -24) {
			return U2F(sign);
		}
		drop = uint(2 - e);
	} else {
		high = uint(e - 1) << 23u;
	}
	uint r = q >> drop;
	uint lost = q & ((1u << drop) - 1u);
	uint half_ = 1u << (drop - 1u);
	if (lost > half_ || (lost == half_ && (left != 0u || (r & 1u) == 1u))) {
		r += 1u;
	}
	return U2F(sign | (high + r));
}`},
	{"root", `FN float root(float x) {
	uint m = F2U(x);
	if ((m & 0x7fffffffu) == 0u) {
		return x;
	}
	if (m > 0x7f800000u) {
		return U2F(0x7fc00000u);
	}
	if (m == 0x7f800000u) {
		return x;
	}
	int e = int(m >> 23u) - 150;
	if (m < 0x800000u) {
		uint s = shiftOf(m);
		m = m << s;
		e = -149 - int(s);
	} else {
		m = (m & 0x7fffffu) | 0x800000u;
	}
	// x = m 2^e. An odd e makes m 2^25 a square times an even power of two.
	float f = U2F((m & 0x7fffffu) | 0x3f800000u);
	if ((e & 1) == 0) {
		m = m << 1u;
		e -= 1;
		f = f * 2.0f;
	}
	float y = U2F(0x5f3759dfu - (F2U(f) >> 1u));
	float g = f * 0.5f;
	y = y * (1.5f - g * (y * y));
	y = y * (1.5f - g * (y * y));
	y = y * (1.5f - g * (y * y));
	uint s = uint((f * y) * 16777216.0f);
	uint left = (m << 25u) - s * s;
	while (left >= 0x80000000u) {
		s -= 1u;
		left += 2u * s + 1u;
	}
	while (left > 2u * s) {
		left -= 2u * s + 1u;
		s += 1u;
	}
	// A root of 25 bits is never halfway between two numbers of 24.
	return U2F((uint((e - 25) / 2 + 150) << 23u) + ((s + 1u) >> 1u));
}`},
}, slices.Concat(wide, transcendental)...)

// function is a function of the library.
type function struct{ name, source string }

// c writes a float constant by its bits, so that no compiler's reading of
// decimals matters.
func c(x float32) string { return fmt.Sprintf("U2F(0x%08xu)", math.Float32bits(x)) }

var identifier = regexp.MustCompile(`[A-Za-z_][A-Za-z_0-9]*`)

// functionsFor returns the source of the library's functions that body uses,
// directly or not.
func functionsFor(body string) string {
	need := map[string]bool{}
	mark := func(source string) {
		for _, id := range identifier.FindAllString(source, -1) {
			need[id] = true
		}
	}
	mark(body)
	var used []string
	for i := len(library) - 1; i >= 0; i-- {
		if f := library[i]; need[f.name] {
			used = append(used, f.source)
			mark(f.source)
		}
	}
	var s strings.Builder
	for i := len(used) - 1; i >= 0; i-- {
		s.WriteString(used[i])
		s.WriteString("\n")
	}
	return s.String()
}
