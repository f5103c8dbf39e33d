// Light or dark: as the system says, or as the reader chose.

export type Theme = 'system' | 'light' | 'dark'
const place = 'holdfast-theme'

class ThemeChoice {
  now = $state<Theme>('system')

  constructor() {
    const kept = this.#kept()
    if (kept === 'light' || kept === 'dark') this.set(kept)
  }

  set(theme: Theme): void {
    this.now = theme
    if (theme === 'system') delete document.documentElement.dataset.theme
    else document.documentElement.dataset.theme = theme
    try {
      localStorage.setItem(place, theme)
    } catch {
      // A browser that keeps nothing shows the theme until it is closed.
    }
  }

  next(): void {
    this.set(this.now === 'system' ? 'dark' : this.now === 'dark' ? 'light' : 'system')
  }

  #kept(): string | null {
    try {
      return localStorage.getItem(place)
    } catch {
      return null
    }
  }
}

export const theme = new ThemeChoice()
