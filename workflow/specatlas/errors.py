"""Every refusal of SpecAtlas has a type, and its message is one sentence for a person.

The command line prints the message without a traceback. A method's refusal is also recorded in its unit's record, so
`code` is a stable name that boards and tests can rely on.
"""


class SpecAtlasError(Exception):
    """Base of everything that SpecAtlas raises on purpose."""

    @property
    def code(self) -> str:
        """The stable name of this kind of error: its class name."""
        return type(self).__name__


class ConfigError(SpecAtlasError):
    """A configuration file has an unknown key or a value out of bounds."""


class CatalogError(SpecAtlasError):
    """A card, the taxonomy or a method folder is broken."""


class UnknownMethod(CatalogError):
    """No method has the requested slug."""


class ModelSourceError(SpecAtlasError):
    """A model cannot be fetched, verified or converted."""


class RecordError(SpecAtlasError):
    """A record is malformed or contradicts itself."""


class Refusal(SpecAtlasError):
    """A combination of method, target and settings cannot run; raised before anything is measured."""


class UnsupportedArchitecture(Refusal):
    """The checkpoint is not one of the families that the engine implements."""


class VocabularyMismatch(Refusal):
    """Drafter and target do not share one vocabulary."""


class UnsupportedSampling(Refusal):
    """A sampling option cannot be honoured by the method or its verification rule."""


class UnsupportedBatch(Refusal):
    """The method works on one sequence at a time."""


class ContextOverflow(Refusal):
    """Prompt and answer do not fit the model's context window."""


class MissingArtifact(Refusal):
    """A trained or searched artifact that the method needs does not exist yet."""


class InvalidDraft(SpecAtlasError):
    """A drafter broke the contract: malformed tree, token outside the vocabulary, wrong shapes."""


class NumericalError(SpecAtlasError):
    """Logits contain NaN, so no token can be chosen."""


class MachineBusy(SpecAtlasError):
    """Another timing job holds this machine."""
