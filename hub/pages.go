package hub

import (
	"context"
	"net/url"
)

// maxPages bounds a listing whose pages never end.
const maxPages = 20_000

// pages asks for a listing page by page, as Link headers lead, and hands each
// answer to each.
func (c *Client) pages(ctx context.Context, next *url.URL, each func(body []byte) error) error {
	seen := map[string]bool{}
	for page := 0; next != nil; page++ {
		if page >= maxPages || seen[next.String()] {
			return &Error{Kind: ErrMetadata, URL: redactURL(next), Message: "the listing's pages do not end"}
		}
		seen[next.String()] = true
		body, h, err := c.getAPI(ctx, next)
		if err != nil {
			return err
		}
		if err := each(body); err != nil {
			return err
		}
		if next, err = c.nextPage(next, parseLinks(h.Values("Link"))["next"]); err != nil {
			return err
		}
	}
	return nil
}

// nextPage resolves the address of the next page. It must stay on the
// endpoint's origin, where the token may go.
func (c *Client) nextPage(from *url.URL, link string) (*url.URL, error) {
	if link == "" {
		return nil, nil
	}
	to, err := nextHop(from, link)
	if err != nil {
		return nil, err
	}
	if to = c.toEndpoint(to); !sameOrigin(to, c.endpoint) {
		return nil, &Error{Kind: ErrRedirect, URL: redactURL(from), Message: "the next page lies on another host: " + redactURL(to)}
	}
	return to, nil
}
