package hub

import (
	"context"
	"encoding/json"
	"net/url"

	"github.com/hfcompress/compress/hub/xet"
)

// Account is whom the Hub takes the client for.
type Account struct {
	Name     string
	FullName string
	// Type is "user", "org" or "app".
	Type string
	// Orgs are the organisations that the account belongs to.
	Orgs []string
	// TokenName and TokenRole ("read", "write", "fineGrained") describe the
	// token, where the Hub tells.
	TokenName, TokenRole string
}

// WhoAmI asks the Hub whose token the client has. Without a token, or with
// one that the Hub does not know, the error matches [ErrUnauthorized].
func (c *Client) WhoAmI(ctx context.Context) (*Account, error) {
	a, err := c.whoAmI(ctx)
	if err != nil {
		return nil, withPlace(err, "whoami", Repo{}, "", "")
	}
	return a, nil
}

func (c *Client) whoAmI(ctx context.Context) (*Account, error) {
	if c.opts.Token == "" {
		return nil, &Error{Kind: ErrUnauthorized, Message: "no token is given", Hint: "make an access token in your account's settings, and set HF_TOKEN to it"}
	}
	u, err := url.Parse(c.endpoint.String() + "/api/whoami-v2")
	if err != nil {
		return nil, err
	}
	body, _, err := c.getAPI(ctx, u)
	if err != nil {
		return nil, err
	}
	return parseAccount(body)
}

func parseAccount(body []byte) (*Account, error) {
	var w struct {
		Name     string `json:"name"`
		FullName string `json:"fullname"`
		Type     string `json:"type"`
		Orgs     []struct {
			Name string `json:"name"`
		} `json:"orgs"`
		Auth struct {
			AccessToken struct {
				Name string `json:"displayName"`
				Role string `json:"role"`
			} `json:"accessToken"`
		} `json:"auth"`
	}
	if json.Unmarshal(body, &w) != nil || w.Name == "" {
		return nil, &Error{Kind: ErrMetadata, Message: "the answer names no account"}
	}
	a := &Account{Name: w.Name, FullName: w.FullName, Type: w.Type, TokenName: w.Auth.AccessToken.Name, TokenRole: w.Auth.AccessToken.Role}
	for _, o := range w.Orgs {
		a.Orgs = append(a.Orgs, o.Name)
	}
	return a, nil
}

// CheckAccess asks whether the client may read a repository's files. Nil
// means yes; otherwise the error says what is in the way: [ErrGated],
// [ErrRepoNotFound], [ErrDisabled] and so on.
func (c *Client) CheckAccess(ctx context.Context, r Repo) error {
	err := r.Validate()
	if err == nil {
		var u *url.URL
		if u, err = url.Parse(c.apiURL(r, "auth-check")); err == nil {
			_, _, err = c.getAPI(ctx, u)
		}
	}
	if err != nil {
		return withPlace(err, "check access to", r, "", "")
	}
	return nil
}

// XetToken asks the Hub for a token that reads a revision's files ("" is
// main) from its content-addressed store. Downloads do so by themselves; the
// token is for callers that talk to the store through package hub/xet.
func (c *Client) XetToken(ctx context.Context, r Repo, revision string) (xet.Token, error) {
	t, err := c.xetReadToken(ctx, r, revision)
	if err != nil {
		return xet.Token{}, withPlace(err, "ask for a Xet token of", r, revision, "")
	}
	return t, nil
}

func (c *Client) xetReadToken(ctx context.Context, r Repo, revision string) (xet.Token, error) {
	if err := r.Validate(); err != nil {
		return xet.Token{}, err
	}
	revision, err := checkRevision(revision)
	if err != nil {
		return xet.Token{}, err
	}
	u, err := url.Parse(c.apiURL(r, "xet-read-token", revision))
	if err != nil {
		return xet.Token{}, err
	}
	return c.xetToken(ctx, u)
}
