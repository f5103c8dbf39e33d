package llm

import (
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
)

// ProviderError is a request that a model's server refused, or an answer of it
// that cannot be used. It is final unless a TransientError wraps it. No field
// holds a credential.
type ProviderError struct {
	Provider  string
	Model     string // as the provider calls it
	Status    int    // of HTTP; 0 where no status was the trouble
	Code      string // the provider's own word for it, such as insufficient_quota
	Param     string // the part of the request it complains about, where it says so
	Message   string // what the provider said, shortened
	RequestID string // to ask the provider about, where it gave one
	Err       error  // the cause, where there is one that a caller may match
}

func (e *ProviderError) Error() string {
	var b strings.Builder
	b.WriteString(e.Provider)
	if e.Model != "" {
		fmt.Fprintf(&b, " model %q", e.Model)
	}
	b.WriteString(": ")
	if e.Status != 0 {
		fmt.Fprintf(&b, "status %d: ", e.Status)
	}
	b.WriteString(e.Message)
	if e.Code != "" {
		fmt.Fprintf(&b, " (%s)", e.Code)
	}
	if e.RequestID != "" {
		fmt.Fprintf(&b, " [request %s]", e.RequestID)
	}
	return b.String()
}

func (e *ProviderError) Unwrap() error { return e.Err }

// OutOfQuota reports a failure that nothing but money or a new month helps.
func OutOfQuota(err error) bool {
	var provider *ProviderError
	if !errors.As(err, &provider) {
		return false
	}
	if provider.Status == 402 {
		return true
	}
	code := strings.ToLower(provider.Code)
	return strings.Contains(code, "quota") || strings.Contains(code, "billing") || strings.Contains(code, "credit")
}

// TooLong reports a request that was larger than the model's context.
func TooLong(err error) bool {
	if errors.Is(err, session.ErrContextLength) {
		return true
	}
	var provider *ProviderError
	if !errors.As(err, &provider) {
		return false
	}
	if provider.Status == 413 || strings.Contains(strings.ToLower(provider.Code), "context_length") {
		return true
	}
	said := strings.ToLower(provider.Message)
	return provider.Status == 400 && (strings.Contains(said, "context length") || strings.Contains(said, "context window") ||
		strings.Contains(said, "prompt is too long") || strings.Contains(said, "too many tokens"))
}

// Reason returns why a model failed, in a few words for a person: what the
// provider said, where it said something.
func Reason(err error) string {
	var told *ProviderError
	switch {
	case !errors.As(err, &told):
		return err.Error()
	case told.Status != 0:
		return fmt.Sprintf("status %d: %s", told.Status, told.Message)
	}
	return told.Message
}
