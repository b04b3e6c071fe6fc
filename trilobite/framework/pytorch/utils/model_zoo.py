"""`tb.utils.model_zoo`: weights from the network, which nothing here fetches."""

from trilobite.framework.pytorch.modules import hub

load_url = vars(hub)["load_state_dict_from_url"]
tqdm = None
