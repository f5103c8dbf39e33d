package foreign_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/interop/foreign"
	"github.com/holdfast-dev/holdfast/session"
)

var key = strings.Repeat("Ab3", 12)

// credentials are texts and the part of each that must not be kept.
var credentials = map[string]string{
	"sk-" + key: key, "sk-ant-api03-" + key: key, "sk-proj-" + key: key, "xai-" + key: key, "gsk_" + key: key, "hf_" + key: key,
	"ghp_" + key: key, "github_pat_" + key: key, "glpat-" + key: key, "npm_" + key: key, "pypi-" + key: key,
	"AKIA" + "ABCDEFGHIJKLMNOP": "ABCDEFGHIJKLMNOP", "AIza" + key[:35]: key[:35], "ya29." + key: key, "dop_v1_" + key + key: key,
	"AccountKey=" + key + key + "==": key, "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPx": "wJalrX",
	"xoxb-" + key: key, "https://hooks.slack.com/services/T0/B0/" + key: key, "123456789:AA" + key[:33]: key[:33],
	"sk_" + "live_" + key: key, "whsec_" + key: key, "SG." + key[:22] + "." + key: key, "AGE-SECRET-KEY-1" + key + key: key,
	"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N":                 "dozjgNryP4J3",
	"-----BEGIN RSA PRIVATE KEY-----\n" + key + "\n-----END RSA PRIVATE KEY-----":             key,
	"-----BEGIN PGP PRIVATE KEY BLOCK-----\n" + key + "\n-----END PGP PRIVATE KEY BLOCK-----": key,
	"-----BEGIN OPENSSH PRIVATE KEY-----\n" + key + "\nand then it was cut":                   key,
	"Authorization: Bearer abcdef0123456789":                                                  "abcdef0123456789",
	"Authorization: Basic dXNlcjpodW50ZXI=":                                                   "dXNlcjpodW50ZXI",
	"curl -H 'x-api-key: abcdef0123456789'":                                                   "abcdef0123456789",
	"the bearer abcdef0123456789":                                                             "abcdef0123456789",
	"Cookie: id=7; session=abcdef":                                                            "session=abcdef",
	"postgres://admin:hunter2@db.example.com/x":                                               "hunter2",
	"https://example.com/?a=1&api_key=abcdef0123&b=2":                                         "abcdef0123",
	"DB_PASSWORD=correct-horse":                                                               "correct-horse",
	"export OPENAI_API_KEY='correct horse'":                                                   "correct horse",
	`{"password": "hunter2"}`:                                                                 "hunter2",
	`{\"nested\":{\"client_secret\":\"hunter2\"}}`:                                            "hunter2",
	"password: hunter2horse":                                                                  "hunter2horse",
}

func TestMaskText(t *testing.T) {
	t.Parallel()
	for text, secret := range credentials {
		for _, in := range []string{text, "use " + text, "(" + text + ")\nnext line"} {
			masked := foreign.MaskText(in)
			if strings.Contains(masked, secret) || !strings.Contains(masked, "[secret:") {
				t.Errorf("%q became %q", in, masked)
			}
			if again := foreign.MaskText(masked); again != masked {
				t.Errorf("%q became %q the second time", masked, again)
			}
		}
	}
	for _, text := range []string{
		"", "sk-learn", "task-board-with-a-rather-long-name-1234", "AKIA", "hf_model", "the password: please ask", "const token = await readToken(1)",
		"token: string, secret: boolean", `password := os.Getenv("HOME")`, "TOKEN_FILE=$HOME/x", "http://localhost:8080/a@b", "mail me@example.com: now", "bearer of news",
		"-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----", `{"max_tokens": 4096}`, "10:30:00", "a:=b==c:::=", "user: name1234567",
	} {
		if masked := foreign.MaskText(text); masked != text {
			t.Errorf("%q became %q", text, masked)
		}
	}
}

// In arguments and results of tools, under keys that name a credential, and as
// keys, at any depth.
func TestSecrets_anywhereInAFile(t *testing.T) {
	t.Parallel()
	file := map[string]any{
		"first":       "it was plainvalue0123, or short",
		"arguments":   map[string]any{"password": "short", "page": json.Number("9007199254740993")},
		"credentials": map[string]any{"user": "someone", "list": []any{"plainvalue0123"}},
		"schema":      map[string]any{"password": map[string]any{"type": "string"}},
		"sk-" + key:   "a key as a key",
	}
	data, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	var secrets foreign.Secrets
	var got map[string]json.RawMessage
	if err := secrets.Decode(data, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"first":        `"it was [secret:credentials], or short"`,
		"arguments":    `{"page":9007199254740993,"password":"[secret:password]"}`,
		"credentials":  `{"list":["[secret:credentials]"],"user":"[secret:credentials]"}`,
		"schema":       `{"password":{"type":"string"}}`,
		"[secret:key]": `"a key as a key"`,
	}
	for key, value := range want {
		if string(got[key]) != value {
			t.Errorf("%s is %s, want %s", key, got[key], value)
		}
	}
	if len(got) != len(want) {
		t.Errorf("keys %q", got)
	}
	var report foreign.Report
	secrets.Note(&report)
	if !slices.Equal(report.Notes, []string{"texts with credentials, which are masked: 4"}) {
		t.Errorf("notes %q", report.Notes)
	}
}

// An id that is a credential, or cannot be one of a session, becomes another:
// the same each time.
func TestConversation_hasAnIDOfItsOwn(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"sk-" + key, "../../etc", ""} {
		c := foreign.Conversation{Format: "test", ID: id, Messages: []session.Message{{Role: session.RoleUser, Content: session.Text("x")}}}
		first, report, err := c.Session(foreign.Options{})
		if err != nil {
			t.Fatal(err)
		}
		again, _, err := c.Session(foreign.Options{})
		if err != nil || again.ID() != first.ID() || first.ID() == id {
			t.Errorf("%q became %q and %q: %v", id, first.ID(), again.ID(), err)
		}
		if len(report.Renamed) != 1 || strings.Contains(report.Renamed[0].From, key) {
			t.Errorf("renamed %+v", report.Renamed)
		}
	}
}

// A masked text is as it was but for the credentials, whatever it is.
func FuzzMaskText(f *testing.F) {
	for text := range credentials {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		masked := foreign.MaskText(text)
		if masked != text && !strings.Contains(masked, "[secret:") {
			t.Errorf("%q became %q", text, masked)
		}
	})
}
