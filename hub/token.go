package hub

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"
)

// maxTokenFile bounds what is read from a token file.
const maxTokenFile = 64 << 10

// cleanToken strips line ends and spaces; what is left empty is no token.
func cleanToken(s string) string {
	return strings.TrimSpace(strings.NewReplacer("\r", "", "\n", "").Replace(s))
}

// checkToken refuses a token that cannot stand in a header. Its text is not
// repeated in the error.
func checkToken(t string) error {
	for i := 0; i < len(t); i++ {
		if t[i] <= 0x20 || t[i] >= 0x7f {
			return &Error{Kind: ErrUnauthorized, Op: "configure", Message: "the token holds a space, a control character or a byte outside ASCII"}
		}
	}
	return nil
}

// readTokenFile returns the token in a file, or "" if there is no file.
func readTokenFile(path string) (string, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxTokenFile))
	if err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	return cleanToken(string(b)), nil
}

// StoredToken is one entry of the file in which "hf auth login" keeps tokens
// by name.
type StoredToken struct {
	Name  string
	Token string
	// Expires is set for tokens that expire; this client does not renew them.
	Expires time.Time
}

// String hides the token.
func (t StoredToken) String() string { return t.Name }

// StoredTokens reads the file stored_tokens, which lies beside the token
// file ([Env].TokenPath). It never writes it. A file that is absent holds no
// tokens. Entries are in the order of the file; ones without a token are left
// out.
func StoredTokens(path string) ([]StoredToken, error) {
	b, err := readSmall(path, maxTokenFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &Error{Kind: ErrCache, Op: "read tokens", Err: err}
	}
	return parseStoredTokens(string(b)), nil
}

// parseStoredTokens reads an INI file as Python's configparser writes it:
// [section], "key = value" or "key: value", comments from # or ;. Values are
// taken as they are.
func parseStoredTokens(text string) []StoredToken {
	var out []StoredToken
	var cur *StoredToken
	flush := func() {
		if cur != nil && cur.Token != "" && checkToken(cur.Token) == nil {
			out = append(out, *cur)
		}
		cur = nil
	}
	for _, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
			continue
		case line[0] == '[' && strings.HasSuffix(line, "]"):
			flush()
			cur = &StoredToken{Name: line[1 : len(line)-1]}
			continue
		}
		i := strings.IndexAny(line, "=:")
		if cur == nil || i < 0 {
			continue
		}
		value := strings.TrimSpace(line[i+1:])
		switch strings.ToLower(strings.TrimSpace(line[:i])) {
		case "hf_token":
			cur.Token = cleanToken(value)
		case "expires_at":
			if s, err := strconv.ParseFloat(value, 64); err == nil && s > 0 && s < 1e11 {
				cur.Expires = time.Unix(int64(s), 0)
			}
		}
	}
	flush()
	return out
}
