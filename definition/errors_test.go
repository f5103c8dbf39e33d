package definition_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/definition"
	"github.com/holdfast-dev/holdfast/session"
)

// Each text is what a person with that file is told.
func TestParse_tellsWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ source, text, want string }{
		{"a.yaml", "", `definition "a.yaml": file: is empty`},
		{"a.json", " \n", `definition "a.json": file: is empty`},
		{"a.yaml", "- a\n", `definition "a.yaml": file: is a list, not a map with a name and other keys`},
		{"a.yaml", "just text\n", `definition "a.yaml": file: is a string, not a map with a name and other keys`},
		{"a.json", `"a"`, `definition "a.json": file: is a string, not a map with a name and other keys`},
		{"a.yaml", "name: a\n---\nname: b\n", `definition "a.yaml": file: has more than one document`},
		{"a.yaml", "---\n---\nname: b\n", `definition "a.yaml": file: has more than one document`},
		{"a.json", `{"name":"a"} {}`, `definition "a.json": file: has more than one document`},
		{"a.json", "{\"name\":\"a\",\n\"label\" \"b\"}", `definition "a.json": file: is not JSON: invalid character '"' after object key (line 2)`},
		{"a.json", `{"name":"a"`, `definition "a.json": file: is not JSON: it ends too early`},
		{"a.yaml", "name: a\nlabel: 'b\n", `definition "a.yaml": file: is not YAML: could not find end character of single-quoted text (line 2)`},
		{"a.yaml", "name: \xff\n", `definition "a.yaml": file: is not valid UTF-8`},
		{"a.yaml", "label: b\n", `definition "a.yaml": name: is missing`},
		{"a.yaml", "name: My Agent\n", `definition "a.yaml": name: "My Agent" is not 1 to 128 lower-case letters, digits, hyphens or underscores starting with a letter or digit (line 1)`},
		{"a.yaml", "name: 5\n", `definition "a.yaml": name: is an integer, not a string; put it in quotes (line 1)`},
		{"a.yaml", "name: a\nlabel:\n", `definition "a.yaml": label: is null, not a string; leave the key out or give it a value (line 2)`},
		{"a.yaml", "name: a\nlabel: true\n", `definition "a.yaml": label: is a boolean, not a string; put it in quotes (line 2)`},
		{"a.yaml", "\ufeffname: a\r\ndescription: \"x\r\n  y\"\r\nlabel: 5\r\n", `definition "a.yaml": label: is an integer, not a string; put it in quotes (line 4)`},
		{"a.yaml", "name: a\nname: b\n", `definition "a.yaml": name: is there twice (line 2)`},
		{"a.json", `{"name":"a","metadata":{"x":[{"y":1,"y":2}]}}`, `definition "a.json": metadata.x[0].y: is there twice (line 1)`},
		{"a.yaml", "name: a\nmodelParams:\n  options: {a: {b: 1, b: 2}}\n", `definition "a.yaml": modelParams.options.a.b: is there twice (line 3)`},
		{"a.yaml", "name: a\ntools:\n", `definition "a.yaml": tools: is null, not a list of names; leave it out for all, write [] for none (line 2)`},
		{"a.json", `{"name":"a","toolsDeny":null}`, `definition "a.json": toolsDeny: is null, not a list of names; leave it out for all, write [] for none (line 1)`},
		{"a.yaml", "name: a\ntools: search\n", `definition "a.yaml": tools: is a string, not a list of names; leave it out for all, write [] for none (line 2)`},
		{"a.yaml", "name: a\ntools: [a, 5]\n", `definition "a.yaml": tools[1]: is an integer, not a string; put it in quotes (line 2)`},
		{"a.yaml", "name: a\nskills:\n- a\n- ' '\n", `definition "a.yaml": skills[1]: is blank (line 4)`},
		{"a.yaml", "name: a\nsystem_prompt: x\n", `definition "a.yaml": system_prompt: is an unknown key; did you mean "systemPrompt"? (line 2)`},
		{"a.yaml", "name: a\ntoolz: []\n", `definition "a.yaml": toolz: is an unknown key; did you mean "tools"? (line 2)`},
		{"a.yaml", "name: a\nbudget: {steps: 5}\n", `definition "a.yaml": budget.steps: is an unknown key; known are deadline, maxCost, maxSeconds, maxSteps, maxTokens (line 2)`},
		{"a.yaml", "name: a\nbudget: {maxSteps: 1.5}\n", `definition "a.yaml": budget.maxSteps: is 1.5, not an integer (line 2)`},
		{"a.yaml", "name: a\nbudget: {maxSteps: -1}\n", `definition "a.yaml": budget.maxSteps: -1 is negative (line 2)`},
		{"a.yaml", "name: a\nbudget: {maxTokens: 0x10}\n", `definition "a.yaml": file: has a number that is not a plain decimal one or too large; quote it if it is a text (line 2)`},
		{"a.yaml", "name: a\nbudget: {deadline: tomorrow}\n", `definition "a.yaml": budget.deadline: is not a moment such as 2026-02-22T10:00:00Z (line 2)`},
		{"a.yaml", "name: a\nmemory: {limit: 5, scopes: []}\n", `definition "a.yaml": memory.scopes: is empty; name a scope, or leave it out for the session's own (line 2)`},
		{"a.yaml", "name: a\nmcp:\n- id: x\n", `definition "a.yaml": mcp[0]: needs a command or a url, and not both (line 3)`},
		{"a.yaml", "name: a\n5: x\n", `definition "a.yaml": file: has a key that is not a string; quote it if it is one (line 2)`},
		{"a.yaml", "name: a\n<<: {label: b}\n", `definition "a.yaml": file: has a merge key (<<), which is not supported (line 2)`},
		{"a.yaml", "name: !!str a\n", `definition "a.yaml": file: has a tag, which is not supported (line 1)`},
		{"a.yaml", "name: *x\n", `definition "a.yaml": file: has an alias without an anchor before it (line 1)`},
		{"a.md", "name: a\n", `definition "a.md": file: has no front matter: its first line must be ---`},
		{"a.md", "---\nname: a\n", `definition "a.md": file: has no line --- that ends the front matter`},
		{"a.md", "---\n---\nx\n", `definition "a.md": front matter: is empty`},
		{"a.md", "---\nname: a\n---\n \n", `definition "a.md": systemPrompt: is missing: there is no text below the front matter`},
		{"a.md", "---\nname: a\nsystemPrompt: x\n---\ny\n", `definition "a.md": systemPrompt: stands in the front matter, but the text below it is the prompt; remove the key (line 3)`},
		{"a.md", "---\nname: a\nlabel: 1\n---\ny\n", `definition "a.md": label: is an integer, not a string; put it in quotes (line 3)`},
		{"a.yaml", "label: 1\ntools: x\nbudget:\n  maxSteps: -1\n  maxtokens: 5\nmemory: 7\n", `definition "a.yaml" has 6 problems:
  name: is missing
  label: is an integer, not a string; put it in quotes (line 1)
  tools: is a string, not a list of names; leave it out for all, write [] for none (line 2)
  budget.maxSteps: -1 is negative (line 4)
  budget.maxtokens: is an unknown key; did you mean "maxTokens"? (line 5)
  memory: is an integer, not a map (line 6)`},
	} {
		_, err := definition.Parse(c.source, []byte(c.text))
		var refused *session.DefinitionError
		if !errors.As(err, &refused) || refused.Source != c.source {
			t.Errorf("%q: error is %v, want a DefinitionError", c.text, err)
			continue
		}
		if c.want != "" && err.Error() != c.want {
			t.Errorf("%q:\n got %s\nwant %s", c.text, err, c.want)
		}
	}
}

func TestParse_refusesSecretsAndNeverShowsThem(t *testing.T) {
	t.Parallel()
	const value = "sk-live-4711"
	for text, key := range map[string]string{
		"name: a\napiKey: " + value + "\n":                                                            "apiKey",
		"name: a\napi_key: " + value + "\nbroken: 1\n":                                                "api_key",
		"name: a\ntoken: " + value + "\n":                                                             "token",
		"name: a\nPassword: " + value + "\n":                                                          "Password",
		"name: a\nmodelParams: {secret: " + value + "}\n":                                             "modelParams.secret",
		"name: a\nmodelParams: {options: {headers: [{Authorization: " + value + "}]}}\n":              "modelParams.options.headers[0].Authorization",
		"name: a\nmodelParams: {options: {api-key: [" + value + "]}}\n":                               "modelParams.options.api-key",
		"name: a\nmcp: [{id: x, command: y, env: {GITHUB_TOKEN: " + value + "}}]\n":                   "mcp[0].env.GITHUB_TOKEN",
		"name: a\nmcp: [{id: x, command: y, env: {API_KEY: 'x${NAME}" + value + "'}}]\n":              "mcp[0].env.API_KEY",
		"name: a\nmcp: [{id: x, url: 'https://h', headers: {Authorization: Bearer " + value + "}}]\n": "mcp[0].headers.Authorization",
		"name: a\nmcp: [{id: x, url: 'https://user:" + value + "@h/mcp'}]\n":                          "mcp[0].url",
		"name: a\nmcp: [{id: x, url: 'https://h/mcp?api_key=" + value + "'}]\n":                       "mcp[0].url?api_key",
		"name: a\nmcp: [{id: x, url: 'https://h/mcp', token: " + value + "}]\n":                       "mcp[0].token",
	} {
		_, err := definition.Parse("a.yaml", []byte(text))
		var secret *session.SecretError
		if !errors.As(err, &secret) || secret.Key != key || secret.Source != "a.yaml" {
			t.Errorf("%q: error is %v, want a SecretError for %s", text, err, key)
		}
		if err != nil && strings.Contains(err.Error(), value) {
			t.Errorf("%q: the error shows the value: %v", text, err)
		}
	}
}

func TestParse_syntaxErrorsShowNoPartOfTheFile(t *testing.T) {
	t.Parallel()
	const value = "sk-live-4711"
	for source, texts := range map[string][]string{
		"a.yaml": {"apiKey: " + value + "\nname: 'a\n", "apiKey: '" + value + "\n", "apiKey: *" + value + "\n", "apiKey: !" + value + " x\n", "apiKey: [" + value + "\n", "apiKey: @" + value, "apiKey: 0x4711_" + value, value + ": : x", "? " + value + "\n- x"},
		"a.json": {`{"apiKey": ` + value + `}`, `{"apiKey": "` + value, `{"apiKey": "` + value + `" x}`},
	} {
		for _, text := range texts {
			_, err := definition.Parse(source, []byte(text))
			if err == nil {
				t.Errorf("%q was read", text)
			} else if strings.Contains(err.Error(), value) {
				t.Errorf("%q: the error shows the value: %v", text, err)
			}
		}
	}
}

func TestParse_referencesAndHarmlessKeysPass(t *testing.T) {
	t.Parallel()
	d := parse(t, "a.yaml", `name: a
modelParams:
  maxOutputTokens: 5
  options: {max_tokens: 5, max_completion_tokens: 7}
mcp:
- {id: x, command: y, env: {API_KEY: "${KEY}", MODE: fast}}
- {id: z, url: "https://h/mcp?key=${KEY}", headers: {authorization: "Basic ${A}:${B}", accept: text/plain}}
`)
	if len(d.MCP) != 2 || d.MCP[0].Env["API_KEY"] != "${KEY}" || d.MCP[1].Headers["accept"] != "text/plain" {
		t.Errorf("servers are %+v", d.MCP)
	}
}
