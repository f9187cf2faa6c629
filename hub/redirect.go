package hub

import (
	"net/url"
	"strings"
)

// maxHops bounds a chain of redirects.
const maxHops = 10

// sameOrigin compares scheme, host and port. net/http compares host names
// alone, which would hand a token to another port of the same machine.
func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && portOf(a) == portOf(b)
}

func portOf(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	if u.Scheme == "https" {
		return "443"
	}
	return "80"
}

// nextHop resolves a Location against the URL that gave it and refuses
// whatever a client should not follow.
func nextHop(from *url.URL, location string) (*url.URL, error) {
	refuse := func(why string) error {
		return &Error{Kind: ErrRedirect, URL: redactURL(from), Message: why}
	}
	if location == "" {
		return nil, refuse("redirect without a Location")
	}
	if len(location) > 16<<10 {
		return nil, refuse("Location is longer than 16 KiB")
	}
	// Parse keeps the query of a relative Location: the Hub puts the etag
	// there.
	to, err := from.Parse(location)
	if err != nil {
		return nil, refuse("Location is not a URL")
	}
	switch {
	case to.Scheme != "http" && to.Scheme != "https" || to.Host == "":
		return nil, refuse("Location is not an http address")
	case from.Scheme == "https" && to.Scheme == "http":
		return nil, refuse("redirect from https to http")
	case to.User != nil:
		return nil, refuse("Location carries user information")
	}
	to.Fragment = ""
	return to, nil
}

// isPublicHub reports whether a URL points at the public Hub, under either of
// its names.
func (c *Client) isPublicHub(u *url.URL) bool {
	for _, p := range c.publicHubs {
		if sameOrigin(u, p) {
			return true
		}
	}
	return false
}

// isHub reports whether a URL points at the endpoint or the public Hub. HEAD
// requests are followed there and nowhere else.
func (c *Client) isHub(u *url.URL) bool { return sameOrigin(u, c.endpoint) || c.isPublicHub(u) }

// toEndpoint moves a URL of the public Hub to the configured endpoint: a
// mirror passes on answers in which the Hub names itself.
func (c *Client) toEndpoint(u *url.URL) *url.URL {
	if c.isPublicHub(c.endpoint) || !c.isPublicHub(u) {
		return u
	}
	v := *u
	v.Scheme, v.Host = c.endpoint.Scheme, c.endpoint.Host
	v.Path = c.endpoint.Path + u.Path
	v.RawPath = ""
	if u.RawPath != "" || c.endpoint.RawPath != "" {
		v.RawPath = c.endpoint.EscapedPath() + u.EscapedPath()
	}
	return &v
}

// redirectTarget decides where a redirect leads: to the endpoint's copy of a
// Hub address if that was not asked yet, else where Location says. Without
// the second half a mirror that sends the client to the Hub itself would loop.
func (c *Client) redirectTarget(from *url.URL, location string, seen map[string]bool) (*url.URL, error) {
	to, err := nextHop(from, location)
	if err != nil {
		return nil, err
	}
	if moved := c.toEndpoint(to); moved != to && !seen[moved.String()] {
		to = moved
	}
	if seen[to.String()] {
		return nil, &Error{Kind: ErrRedirect, URL: redactURL(from), Message: "redirect loop"}
	}
	return to, nil
}

// parseLinks reads a Link header (RFC 8288) into target by relation type.
// The first link of a type counts. Targets are not resolved.
func parseLinks(headers []string) map[string]string {
	out := map[string]string{}
	for _, h := range headers {
		if len(h) > 64<<10 {
			continue
		}
		for h != "" {
			open := strings.IndexByte(h, '<')
			if open < 0 {
				break
			}
			end := strings.IndexByte(h[open:], '>')
			if end < 0 {
				break
			}
			target := strings.TrimSpace(h[open+1 : open+end])
			var rels string
			rels, h = linkParams(h[open+end+1:])
			for _, rel := range strings.Fields(strings.ToLower(rels)) {
				if _, ok := out[rel]; !ok {
					out[rel] = target
				}
			}
		}
	}
	return out
}

// linkParams reads the parameters after a link target up to the next link and
// returns the value of rel.
func linkParams(s string) (rel, rest string) {
	for {
		s = strings.TrimLeft(s, " \t")
		if s == "" {
			return rel, ""
		}
		if s[0] == ',' {
			return rel, s[1:]
		}
		if s[0] != ';' {
			return rel, s[1:]
		}
		s = strings.TrimLeft(s[1:], " \t")
		end := strings.IndexAny(s, "=;,")
		if end < 0 {
			return rel, ""
		}
		name := strings.ToLower(strings.TrimSpace(s[:end]))
		if s[end] != '=' {
			s = s[end:]
			continue
		}
		var value string
		value, s = linkValue(strings.TrimLeft(s[end+1:], " \t"))
		if name == "rel" && rel == "" {
			rel = value
		}
	}
}

// linkValue reads a token or a quoted string.
func linkValue(s string) (value, rest string) {
	if s == "" || s[0] != '"' {
		end := strings.IndexAny(s, ";, \t")
		if end < 0 {
			end = len(s)
		}
		return s[:end], s[end:]
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		case s[i] == '"':
			return b.String(), s[i+1:]
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String(), ""
}
