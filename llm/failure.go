package llm

import (
	"fmt"
	"strings"
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
