// Package basic has tools that need nothing but a clock and arithmetic. They
// change nothing and reach nothing.
package basic

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// Config has the clock; nil is the system's.
type Config struct {
	Now func() time.Time
}

// Tools makes current_time and calculator.
func Tools(c Config) ([]tool.Tool, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	clock, err := tool.Func(tool.Spec{
		Name: "current_time", Effects: tool.Read, Nature: tool.ReadOnly,
		Description: "What time it is, in any time zone.",
	}, c.currentTime)
	if err != nil {
		return nil, err
	}
	calculator, err := tool.Func(tool.Spec{
		Name: "calculator", Effects: tool.Read, Nature: tool.ReadOnly,
		Description: "Calculate exactly, with numbers of any length: + - * / // (whole division) % (remainder) ^ or ** (power), parentheses, " +
			"abs, floor, ceil, round(x) or round(x, digits), sqrt, min, max, and pi.",
	}, calculate)
	if err != nil {
		return nil, err
	}
	return []tool.Tool{clock, calculator}, nil
}

type timeArguments struct {
	Timezone string `json:"timezone,omitempty" jsonschema:"utc, local or a name such as Europe/Oslo; utc where it is left out"`
	Format   string `json:"format,omitempty" jsonschema:"iso, unix or human; iso where it is left out"`
}

func (c Config) currentTime(_ context.Context, in timeArguments) (string, error) {
	now := c.Now()
	switch in.Timezone {
	case "", "utc", "UTC":
		now = now.UTC()
	case "local", "Local":
		now = now.Local()
	default:
		zone, err := time.LoadLocation(in.Timezone)
		if err != nil {
			return "", &session.InvalidError{Field: "timezone", Reason: fmt.Sprintf("%q is not known; names are as in Europe/Oslo", in.Timezone)}
		}
		now = now.In(zone)
	}
	switch in.Format {
	case "", "iso":
		return now.Format(time.RFC3339), nil
	case "unix":
		return fmt.Sprint(now.Unix()), nil
	case "human":
		return now.Format("Monday, January 02, 2006 at 03:04:05 PM MST"), nil
	}
	return "", &session.InvalidError{Field: "format", Reason: fmt.Sprintf("%q is not iso, unix or human", in.Format)}
}
