package hub

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
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
