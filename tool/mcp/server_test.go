//go:build unix

package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"
)

// mode makes this test binary a server instead. It is passed as a server's
// own variable, as everything else a program gets.
const mode = "HOLDFAST_TEST_SERVER"

func TestMain(m *testing.M) {
	switch how := os.Getenv(mode); how {
	case "":
		goleak.VerifyTestMain(m)
	case "sdk":
		if err := newServer().Run(context.Background(), &sdk.StdioTransport{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(0)
	default:
		act(how)
		os.Exit(0)
	}
}

// act is a server that does not behave.
func act(how string) {
	switch how {
	case "refuses":
		fmt.Fprintln(os.Stderr, "\x1b[31mno licence for "+os.Getenv("LICENCE_KEY")+"\x1b[0m")
		os.Exit(3)
	case "garbage":
		fmt.Println("Welcome to the server! Loading...")
		select {}
	case "hangs":
		select {}
	case "stubborn": // it ignores the end of its input and every polite signal, and has a child
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		child := exec.Command("sleep", "600") //nolint:noctx // it is to outlive everything
		if err := child.Start(); err != nil {
			panic(err)
		}
		note("child", fmt.Sprint(child.Process.Pid))
		note("self", fmt.Sprint(os.Getpid()))
		answerAll("many")
		select {}
	default:
		answerAll(how)
	}
}

// note leaves a file where the test looks for it.
func note(name, text string) {
	file := filepath.Join(os.Getenv("NOTES"), name)
	if err := os.WriteFile(file+".tmp", []byte(text), 0o600); err != nil {
		panic(err)
	}
	if err := os.Rename(file+".tmp", file); err != nil {
		panic(err)
	}
}

func noted(name string) bool {
	_, err := os.Stat(filepath.Join(os.Getenv("NOTES"), name))
	return err == nil
}

// answerAll speaks the protocol by hand, so that it can say what an honest
// library would not.
func answerAll(how string) {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var req struct {
			ID     json.RawMessage
			Method string
			Params struct{ Cursor string }
		}
		if json.Unmarshal(in.Bytes(), &req) != nil || req.ID == nil {
			continue
		}
		result, ok := "", true
		switch req.Method {
		case "initialize":
			result = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}`
		case "tools/list":
			result = listing(how, req.Params.Cursor)
		default:
			ok = false
		}
		if ok {
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", req.ID, result)
		} else {
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`+"\n", req.ID)
		}
	}
}

func listing(how, cursor string) string {
	entry := func(name, schema string) string {
		raw, err := json.Marshal(name)
		if err != nil {
			panic(err)
		}
		return fmt.Sprintf(`{"name":%s,"description":"Does %s.","inputSchema":%s}`, raw, "it", schema)
	}
	var entries []string
	next := ""
	switch how {
	case "many": // 1,000 in ten pages
		page := 0
		_, _ = fmt.Sscanf(cursor, "p%d", &page) // the first page has no cursor
		for i := range 100 {
			entries = append(entries, entry(fmt.Sprintf("tool%03d", page*100+i), `{"type":"object"}`))
		}
		if page < 9 {
			next = fmt.Sprintf("p%d", page+1)
		}
	case "endless":
		entries, next = []string{entry("same", `{"type":"object"}`)}, "more"
	case "hostile":
		for _, name := range hostileNames {
			entries = append(entries, entry(name, `{}`))
		}
		entries = append(entries, entry("", `{}`), entry("fine", `{}`), entry("list", `{"type":"array"}`), entry("text", `"x"`),
			entry("huge", `{"type":"object","description":"`+strings.Repeat("x", 100<<10)+`"}`))
	}
	return fmt.Sprintf(`{"tools":[%s],"nextCursor":%q}`, strings.Join(entries, ","), next)
}

// hostileNames would be refused by a provider, or be taken for one another.
var hostileNames = []string{
	"fine", "a b", "a_b", "a.b", "a/b", "a\tb", "../../etc/passwd", "日本語", "\x1b[31mred", strings.Repeat("x", 500), strings.Repeat("x", 500) + "y",
	"quote\"}", "\u202eevil", "__", "-",
}

// newServer is a server as the library makes it.
func newServer() *sdk.Server {
	server := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	type words struct {
		Text string `json:"text" jsonschema:"what to say"`
	}
	type none struct{}
	type text = *sdk.CallToolResult
	say := func(s string) text { return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: s}}} }

	sdk.AddTool(server, &sdk.Tool{Name: "echo", Description: "Says it again.", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}},
		func(_ context.Context, _ *sdk.CallToolRequest, in words) (text, any, error) {
			return say(in.Text), nil, nil
		})
	sdk.AddTool(server, &sdk.Tool{Name: "sum", Annotations: &sdk.ToolAnnotations{IdempotentHint: true}},
		func(_ context.Context, _ *sdk.CallToolRequest, in struct {
			A int `json:"a"`
			B int `json:"b"`
		}) (text, map[string]int, error) {
			return nil, map[string]int{"sum": in.A + in.B}, nil
		})
	sdk.AddTool(server, &sdk.Tool{Name: "fail"}, func(context.Context, *sdk.CallToolRequest, none) (text, any, error) {
		return nil, nil, errors.New("it is broken")
	})
	sdk.AddTool(server, &sdk.Tool{Name: "mixed"}, func(context.Context, *sdk.CallToolRequest, none) (text, any, error) {
		return &sdk.CallToolResult{
			Content: []sdk.Content{
				&sdk.TextContent{Text: "\x1b[1mbold\x1b[0m"}, &sdk.ImageContent{MIMEType: "image/png", Data: []byte("12345")},
				&sdk.AudioContent{MIMEType: "audio/wav", Data: []byte("1")}, &sdk.ResourceLink{Name: "doc", URI: "file:///doc"},
				&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "mem:///a", Text: "inside"}},
				&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "mem:///b", MIMEType: "x/y", Blob: []byte("123")}},
			},
			StructuredContent: map[string]any{"n": 1},
		}, nil, nil
	})
	sdk.AddTool(server, &sdk.Tool{Name: "big"}, func(context.Context, *sdk.CallToolRequest, none) (text, any, error) {
		return say(strings.Repeat("x", 200<<10)), nil, nil
	})
	sdk.AddTool(server, &sdk.Tool{Name: "variable"}, func(_ context.Context, _ *sdk.CallToolRequest, in words) (text, any, error) {
		return say(in.Text + "=" + os.Getenv(in.Text)), nil, nil
	})
	sdk.AddTool(server, &sdk.Tool{Name: "slow"}, func(ctx context.Context, _ *sdk.CallToolRequest, _ none) (text, any, error) {
		note("begun", "")
		<-ctx.Done()
		note("cancelled", "")
		return nil, nil, ctx.Err()
	})
	sdk.AddTool(server, &sdk.Tool{Name: "die"}, func(context.Context, *sdk.CallToolRequest, none) (text, any, error) {
		fmt.Fprintln(os.Stderr, "out of memory")
		os.Exit(1)
		return nil, nil, nil
	})
	dieOnce := func(_ context.Context, req *sdk.CallToolRequest, _ none) (text, any, error) {
		if !noted(req.Params.Name) {
			note(req.Params.Name, "")
			os.Exit(1)
		}
		return say("alive"), nil, nil
	}
	sdk.AddTool(server, &sdk.Tool{Name: "die_once"}, dieOnce)
	sdk.AddTool(server, &sdk.Tool{Name: "die_once_reading", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}}, dieOnce)
	return server
}
