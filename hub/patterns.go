package hub

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Match reports whether a repository path matches an fnmatch pattern: '*'
// stands for any text including '/', '?' for one character, "[abc]", "[a-z]"
// and "[!a-z]" for one character of a set. There are no escapes, letters
// match by case, '\' counts as '/', and a pattern that ends in '/' means
// everything below. A '[' that nothing closes stands for itself.
func Match(pattern, name string) bool {
	pattern = strings.ReplaceAll(pattern, `\`, "/")
	if strings.HasSuffix(pattern, "/") {
		pattern += "*"
	}
	return match(pattern, strings.ReplaceAll(name, `\`, "/"))
}

// match walks both strings and remembers the last '*', so that its time is
// bounded by the product of the lengths whatever the pattern holds.
func match(p, s string) bool {
	var starP, starS string
	star := false
	for {
		if p != "" && p[0] == '*' {
			star, starP, starS = true, p[1:], s
			p = p[1:]
			continue
		}
		if s == "" && p == "" {
			return true
		}
		if s != "" && p != "" {
			_, n := utf8.DecodeRuneInString(s)
			if rest, ok := matchOne(p, s[:n]); ok {
				p, s = rest, s[n:]
				continue
			}
		}
		if !star || starS == "" {
			return false
		}
		_, n := utf8.DecodeRuneInString(starS)
		starS = starS[n:]
		p, s = starP, starS
	}
}

// matchOne matches the first element of a pattern (not '*') with one
// character, or one byte that is no UTF-8, and returns the rest of the pattern.
func matchOne(p, char string) (rest string, ok bool) {
	switch p[0] {
	case '?':
		return p[1:], true
	case '[':
		if set, rest, closed := cutSet(p); closed {
			r, _ := utf8.DecodeRuneInString(char)
			return rest, inSet(set, r)
		}
	}
	_, n := utf8.DecodeRuneInString(p)
	return p[n:], p[:n] == char
}

// cutSet splits "[set]rest". A ']' directly after '[' or "[!" is a member.
func cutSet(p string) (set, rest string, ok bool) {
	i := 1
	if i < len(p) && p[i] == '!' {
		i++
	}
	if i < len(p) && p[i] == ']' {
		i++
	}
	j := strings.IndexByte(p[min(i, len(p)):], ']')
	if j < 0 {
		return "", "", false
	}
	return p[1 : i+j], p[i+j+1:], true
}

func inSet(set string, r rune) bool {
	negate := strings.HasPrefix(set, "!")
	if negate {
		set = set[1:]
	}
	rs := []rune(set)
	in := false
	for i := 0; i < len(rs); i++ {
		if i+2 < len(rs) && rs[i+1] == '-' {
			in = in || rs[i] <= r && r <= rs[i+2]
			i += 2
			continue
		}
		in = in || rs[i] == r
	}
	return in != negate
}

// filter applies the selection of a snapshot to a listing.
func (o SnapshotOptions) filter(files []File) ([]File, error) {
	byName := make(map[string]bool, len(files))
	for _, f := range files {
		byName[f.Path] = true
	}
	for _, name := range o.Files {
		if !byName[name] {
			return nil, &Error{Kind: ErrEntryNotFound, File: name}
		}
	}
	var out []File
	for _, f := range files {
		if o.selects(f.Path) {
			out = append(out, f)
		}
	}
	return out, nil
}

func (o SnapshotOptions) selects(name string) bool {
	if len(o.Files) > 0 && !slices.Contains(o.Files, name) {
		return false
	}
	matches := func(p string) bool { return Match(p, name) }
	if len(o.Allow) > 0 && !slices.ContainsFunc(o.Allow, matches) {
		return false
	}
	return !slices.ContainsFunc(o.Ignore, matches)
}
