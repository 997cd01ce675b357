"""The shield: it defends the server from those who ask too much. The README beside this says what each part buys."""
